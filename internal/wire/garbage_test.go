package wire_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	"github.com/replicant-sidecar/replicant-sidecar/remotesink"
)

// serveBytes answers every call with these bytes as its response.
func serveBytes(t *testing.T, answer func() []byte) *remotesink.Sink {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sink")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	server := grpc.NewServer(grpc.ForceServerCodecV2(wire.Codec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		for {
			request := new(wire.Raw)
			if err := stream.RecvMsg(request); err != nil {
				break // the client has sent all
			}
			request.Free()
		}
		b := answer()
		raw := wire.NewRaw(len(b), func(dst []byte) []byte { return append(dst, b...) })
		defer raw.Free()
		return stream.SendMsg(raw)
	}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	remote, err := remotesink.New(remotesink.Options{Address: "unix:" + path})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, remote.Close())
		server.Stop()
		require.NoError(t, <-served)
	})
	return remote
}

// TestAnswersThatAreNoMessages: bytes that are no response say nothing of what was done.
// They are no position, no consent and no capability, and nothing of them is shown.
func TestAnswersThatAreNoMessages(t *testing.T) {
	var answer []byte
	remote := serveBytes(t, func() []byte { return answer })
	ctx := timed(t)
	unit := idle()
	message := &core.MessageUnit{Call: call(), Expected: 5, Checkpoint: 9, Message: core.Message{LSN: 9, Prefix: []byte("p")}}
	calls := map[string]func() error{
		"GetCapabilities":   func() error { _, err := remote.Capabilities(ctx); return err },
		"Checkpoint":        func() error { _, err := remote.Checkpoint(ctx, core.CheckpointRequest{StreamID: "s"}); return err },
		"HandleBatch":       func() error { _, err := remote.HandleBatch(ctx, unit); return err },
		"HandleTransaction": func() error { _, err := remote.HandleTransaction(ctx, unit); return err },
		"HandleMessage":     func() error { _, err := remote.HandleMessage(ctx, message); return err },
		"HandleLargeTransaction": func() error {
			_, err := remote.HandleLargeTransaction(ctx, &source{relation: people(), pieces: 1})
			return err
		},
		"HandleSchemaChange": func() error {
			return remote.HandleSchemaChange(ctx, &core.SchemaChangeUnit{Call: call(), Change: core.SchemaChange{
				Kind: core.SchemaAdditive, What: "column_added", Before: people(), After: people(),
			}})
		},
		"HandleSessionIdentity": func() error { return remote.HandleSessionIdentity(ctx, core.SessionIdentity{StreamID: "s"}) },
		"HandleSlotOrigin":      func() error { return remote.HandleSlotOrigin(ctx, core.SlotOrigin{StreamID: "s"}) },
	}
	for name, garbage := range map[string]string{
		"a field that ends early":  "\x0a\x7f" + secret,
		"a number without an end":  strings.Repeat("\xff", 20),
		"a tag of field 0":         "\x00" + secret,
		"an end without a group":   "\x0c" + secret,
		"text of another protocol": "HTTP/1.1 502 " + secret,
	} {
		answer = []byte(garbage)
		for call, make := range calls {
			err := make()
			failure := sinkFailure(t, err)
			require.Equal(t, core.ClassSuspicious, failure.Class, "%s: %s", call, name)
			require.Equal(t, call, failure.Call)
			require.False(t, failure.NeverSent)
			require.NotContains(t, failure.Error(), secret)
		}
	}
}

// TestFieldsOfAnotherKind: a field in another wire type is one that is not known, so it is
// absent; for a position that is for the engine to refuse.
func TestFieldsOfAnotherKind(t *testing.T) {
	var answer []byte
	remote := serveBytes(t, func() []byte { return answer })
	ctx := timed(t)
	answer = []byte("\x0a\x01x\x12\x01y") // checkpoint_lsn and counts as text: counts is a message, which "y" is not
	_, err := remote.HandleBatch(ctx, idle())
	require.Equal(t, core.ClassSuspicious, sinkFailure(t, err).Class)
	answer = []byte("\x0a\x01x") // checkpoint_lsn as text
	ack, err := remote.HandleBatch(ctx, idle())
	require.NoError(t, err)
	require.Zero(t, ack.Checkpoint)
	answer = []byte("\x0a\x08\x08\x01\x08\x01\x08\x01\x08\x01") // position as text
	stored, err := remote.Checkpoint(ctx, core.CheckpointRequest{StreamID: "s"})
	require.NoError(t, err)
	require.Zero(t, stored.Position)
	answer = []byte("\x08\x05\x08\x07") // a position twice: the last one counts, as in every protobuf message
	ack, err = remote.HandleBatch(ctx, idle())
	require.NoError(t, err)
	require.Equal(t, core.LSN(7), ack.Checkpoint)
	answer = nil // nothing at all
	_, err = remote.Capabilities(ctx)
	require.Equal(t, core.HaltSinkContract, sinkFailure(t, err).Halt, "no name")
}
