package wire_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
	"github.com/replicant-sidecar/replicant-sidecar/remotesink"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

var shortCalls = &sinkv1.GetCapabilitiesResponse{
	SinkName: "deaf", Limits: &sinkv1.Limits{MaxCallDuration: durationpb.New(100 * time.Millisecond)},
}

// A dial that never connected is no call: the sink is away, and nothing is in doubt.
func TestNoConnectionIsNoCall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sink")
	remote, err := remotesink.New(remotesink.Options{Address: "unix:" + path})
	require.NoError(t, err)
	defer func() { require.NoError(t, remote.Close()) }()
	_, err = remote.HandleBatch(timed(t), idle())
	failure := sinkFailure(t, err)
	require.Equal(t, core.ClassAway, failure.Class)
	require.True(t, failure.NeverSent)
	_, err = remote.HandleLargeTransaction(timed(t), &source{})
	failure = sinkFailure(t, err)
	require.Equal(t, core.ClassAway, failure.Class)
	require.True(t, failure.NeverSent)

	// A connection that does not come about before the deadline.
	hang, err := remotesink.New(remotesink.Options{Address: "localhost:1", DialContext: func(ctx context.Context, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = hang.HandleBatch(ctx, idle())
	failure = sinkFailure(t, err)
	require.Equal(t, core.ClassAway, failure.Class)
	require.True(t, failure.NeverSent)
	require.Equal(t, "DEADLINE_EXCEEDED", failure.Code)
	require.NoError(t, hang.Close())
}

// A sink that goes away in a call leaves an unknown outcome, comes back, and is found
// again without a new Sink.
func TestSinkRestartIsSurvived(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sink")
	entered := make(chan struct{}, 1)
	serve := func(handle func(context.Context)) *grpc.Server {
		listener, err := net.Listen("unix", path)
		require.NoError(t, err)
		server := grpc.NewServer()
		sinkv1.RegisterSinkServiceServer(server, &slow{handle: handle})
		go func() { _ = server.Serve(listener) }()
		return server
	}
	first := serve(func(ctx context.Context) { entered <- struct{}{}; <-ctx.Done() })
	remote, err := remotesink.New(remotesink.Options{Address: "unix://" + path})
	require.NoError(t, err)
	defer func() { require.NoError(t, remote.Close()) }()
	answered := make(chan error, 1)
	go func() { _, err := remote.HandleBatch(timed(t), idle()); answered <- err }()
	<-entered
	first.Stop()
	failure := sinkFailure(t, <-answered)
	require.Equal(t, core.ClassAway, failure.Class)
	require.False(t, failure.NeverSent)
	second := serve(func(context.Context) {})
	defer second.Stop()
	require.Eventually(t, func() bool { _, err := remote.HandleBatch(timed(t), idle()); return err == nil }, 10*time.Second, 10*time.Millisecond)

	// The call's own deadline is an unknown outcome too.
	third := &slow{handle: func(ctx context.Context) { <-ctx.Done() }}
	deadline := serveGenerated(t, third)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = deadline.HandleBatch(ctx, idle())
	require.Equal(t, core.ClassUnknown, sinkFailure(t, err).Class)
}

type slow struct {
	sinkv1.UnimplementedSinkServiceServer
	handle func(context.Context)
}

func (s *slow) HandleBatch(ctx context.Context, m *sinkv1.HandleBatchRequest) (*sinkv1.HandleBatchResponse, error) {
	s.handle(ctx)
	return &sinkv1.HandleBatchResponse{CheckpointLsn: m.CheckpointLsn}, ctx.Err()
}

// liar gives answers that break the contract, or nearly do.
type liar struct {
	sinkv1.UnimplementedSinkServiceServer
	about *sinkv1.GetCapabilitiesResponse
	state *sinkv1.CheckpointResponse
	lsn   *uint64
}

func (l *liar) GetCapabilities(context.Context, *sinkv1.GetCapabilitiesRequest) (*sinkv1.GetCapabilitiesResponse, error) {
	return l.about, nil
}

func (l *liar) Checkpoint(context.Context, *sinkv1.CheckpointRequest) (*sinkv1.CheckpointResponse, error) {
	return l.state, nil
}

func (l *liar) HandleBatch(context.Context, *sinkv1.HandleBatchRequest) (*sinkv1.HandleBatchResponse, error) {
	return &sinkv1.HandleBatchResponse{CheckpointLsn: l.lsn}, nil
}

func TestAnswersThatBreakTheContract(t *testing.T) {
	l := &liar{}
	remote := serveGenerated(t, l)
	breach := func(err error, name string) {
		t.Helper()
		failure := sinkFailure(t, err)
		require.Equal(t, core.ClassRefused, failure.Class, name)
		require.Equal(t, core.HaltSinkContract, failure.Halt, name)
	}
	for name, about := range map[string]*sinkv1.GetCapabilitiesResponse{
		"no name":           {},
		"long name":         {SinkName: strings.Repeat("x", 257)},
		"control in name":   {SinkName: "a\x1b[31m"},
		"long version":      {SinkName: "n", SinkVersion: strings.Repeat("x", 257)},
		"long instance":     {SinkName: "n", InstanceId: make([]byte, 65)},
		"negative duration": {SinkName: "n", Limits: &sinkv1.Limits{MaxCallDuration: durationpb.New(-1)}},
		"duration no form":  {SinkName: "n", Limits: &sinkv1.Limits{MaxCallDuration: &durationpb.Duration{Seconds: 1, Nanos: -1}}},
	} {
		l.about = about
		_, err := remote.Capabilities(timed(t))
		breach(err, name)
	}
	for name, state := range map[string]*sinkv1.CheckpointResponse{
		"position 0": {Position: proto.Uint64(0)}, "lineage": {Lineage: make([]byte, 65)}, "state": {ResumeState: make([]byte, 1<<20+1)},
	} {
		l.state = state
		_, err := remote.Checkpoint(timed(t), core.CheckpointRequest{StreamID: "s"})
		breach(err, name)
	}
	l.lsn = proto.Uint64(0)
	_, err := remote.HandleBatch(timed(t), idle())
	breach(err, "checkpoint_lsn 0")

	l.lsn = nil // whether one was due is for the engine to say
	ack, err := remote.HandleBatch(timed(t), idle())
	require.NoError(t, err)
	require.Zero(t, ack.Checkpoint)
	l.state = &sinkv1.CheckpointResponse{}
	state, err := remote.Checkpoint(timed(t), core.CheckpointRequest{StreamID: "s"})
	require.NoError(t, err)
	require.Equal(t, core.Checkpoint{}, state)
	l.about = &sinkv1.GetCapabilitiesResponse{
		ProtocolMinor: 9, SinkName: "newer", SinkKind: 7, Capabilities: []sinkv1.Capability{1, 14, 99, 257, 3},
		Fencing: []sinkv1.Fencing{0, 1, 7, 1}, Limits: &sinkv1.Limits{MaxRequestBytes: 1 << 62},
	}
	about, err := remote.Capabilities(timed(t))
	require.NoError(t, err)
	require.Equal(t, core.Capabilities{
		Name: "newer", Kind: core.StateMirror, Set: core.NewCapabilitySet(core.CapCheckpoint, core.CapBatch),
		Fencing: []core.Fencing{core.FencingStored}, Limits: core.SinkLimits{RequestBytes: core.ReceiveBytesMax}, ProtocolMinor: 9,
	}, about)
}

// Every capability and way of fencing of core has its number in the contract.
func TestNumbersAreTheContracts(t *testing.T) {
	for _, capability := range core.AllCapabilities() {
		require.Equal(t, int32(capability), sinkv1.Capability_value["CAPABILITY_"+capability.String()])
	}
	require.Len(t, sinkv1.Capability_name, len(core.AllCapabilities())+1)
	require.Equal(t, int32(core.FencingStored), sinkv1.Fencing_value["FENCING_STORED"])
	require.Equal(t, int32(core.FencingInstance), sinkv1.Fencing_value["FENCING_INSTANCE"])
	for op := core.OpInsert; op <= core.OpMessage; op++ {
		require.Equal(t, int32(op), sinkv1.ChangeOp_value["CHANGE_OP_"+strings.ToUpper(op.String())])
	}
	require.Equal(t, int32(core.SchemaDestructive), sinkv1.SchemaChangeKind_value["SCHEMA_CHANGE_KIND_DESTRUCTIVE"])
	require.Equal(t, int32(core.OwnerSidecar), sinkv1.CheckpointOwner_value["CHECKPOINT_OWNER_SIDECAR"])
	require.Equal(t, int32(core.OldFull), sinkv1.OldRowKind_value["OLD_ROW_KIND_FULL"])
}

// vetoes takes every small call and keeps what it was asked.
type vetoes struct {
	noop
	message  core.MessageUnit
	shape    core.SchemaChangeUnit
	identity core.SessionIdentity
	origin   core.SlotOrigin
	refusal  error
}

func (v *vetoes) HandleMessage(_ context.Context, u *core.MessageUnit) (core.Ack, error) {
	v.message = *u
	return core.Ack{Checkpoint: u.Checkpoint}, v.refusal
}

func (v *vetoes) HandleSchemaChange(_ context.Context, u *core.SchemaChangeUnit) error {
	v.shape = *u
	return v.refusal
}

func (v *vetoes) HandleSessionIdentity(_ context.Context, i core.SessionIdentity) error {
	v.identity = i
	return v.refusal
}

func (v *vetoes) HandleSlotOrigin(_ context.Context, o core.SlotOrigin) error {
	v.origin = o
	return v.refusal
}

func TestSmallCallsThereAndBack(t *testing.T) {
	v := &vetoes{}
	remote := serveSink(t, v)
	ctx := timed(t)
	source := core.SourceIdentity{SystemIdentifier: "7", Database: "shop", Slot: "a", Timeline: 3}
	message := core.MessageUnit{Call: call(), Expected: 5, Checkpoint: 9, Message: core.Message{LSN: 9, Prefix: []byte("p"), Content: []byte("c")}, ResumeState: []byte("r")}
	ack, err := remote.HandleMessage(ctx, &message)
	require.NoError(t, err)
	require.Equal(t, core.LSN(9), ack.Checkpoint)
	require.Equal(t, message, v.message)
	wider := people()
	wider.Columns = append(wider.Columns, core.Column{Name: "age"})
	shape := core.SchemaChangeUnit{Call: call(), Expected: 5, Change: core.SchemaChange{
		Kind: core.SchemaDestructive, What: "columns_changed", Before: people(), After: wider,
		Added: []string{"age"}, Dropped: []string{"x"}, Retyped: []string{"y"},
	}}
	require.NoError(t, remote.HandleSchemaChange(ctx, &shape))
	require.Equal(t, shape, v.shape)
	identity := core.SessionIdentity{StreamID: "s", Source: source, CurrentLSN: 99, Publications: []string{"p", "q"}}
	require.NoError(t, remote.HandleSessionIdentity(ctx, identity))
	require.Equal(t, identity, v.identity)
	origin := core.SlotOrigin{StreamID: "s", Source: source, Origin: 42, Reused: true}
	require.NoError(t, remote.HandleSlotOrigin(ctx, origin))
	require.Equal(t, origin, v.origin)

	v.refusal = &core.Refusal{Reason: core.ReasonOriginRejected, Text: "gap"}
	require.Equal(t, core.HaltOriginRejected, sinkFailure(t, remote.HandleSlotOrigin(ctx, origin)).Halt)
	v.refusal = &core.Refusal{Reason: core.ReasonIdentityRejected}
	require.Equal(t, core.HaltIdentityRejected, sinkFailure(t, remote.HandleSessionIdentity(ctx, identity)).Halt)
	v.refusal = &core.Refusal{Reason: core.ReasonSchemaDeclined}
	require.Equal(t, core.HaltSchemaRefused, sinkFailure(t, remote.HandleSchemaChange(ctx, &shape)).Halt)
	message.Checkpoint, message.Message.LSN = 0, 0
	_, err = remote.HandleMessage(ctx, &message)
	require.Equal(t, core.HaltSinkRejected, sinkFailure(t, err).Halt)
}

// The lines that both ends log at debug level hold call, code and reason, and neither a
// value nor the sink's own text. Calls are counted.
func TestCallsAreLoggedWithoutContent(t *testing.T) {
	var log bytes.Buffer
	recorder := &recorder{err: &core.Refusal{Reason: core.ReasonUnitRejected, Text: secret}}
	path := filepath.Join(t.TempDir(), "sink")
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	handler := func(w *bytes.Buffer) *slog.Logger {
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	var sdkLog bytes.Buffer
	go func() { served <- sink.Serve(ctx, "unix:"+path, recorder, sink.WithLogger(handler(&sdkLog))) }()
	registry := prometheus.NewRegistry()
	remote, err := remotesink.New(remotesink.Options{Address: "unix:" + path, Logger: handler(&log), Registerer: registry})
	require.NoError(t, err)
	again, err := remotesink.New(remotesink.Options{Address: "unix:" + path, Registerer: registry})
	require.NoError(t, err, "a second sink in one process")
	require.NoError(t, again.Close())
	unit := idle()
	unit.Transactions = []core.Transaction{{CommitLSN: 4, EndLSN: 5, Changes: []core.Change{
		{Op: core.OpInsert, Relation: people(), New: core.PackTuple(core.Text(secret), core.Null())},
	}}}
	require.Eventually(t, func() bool {
		_, err := remote.HandleBatch(ctx, unit)
		return sinkFailure(t, err).Reason == core.ReasonUnitRejected
	}, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, remote.Close())
	cancel()
	require.NoError(t, <-served)
	for _, text := range []string{log.String(), sdkLog.String()} {
		require.Contains(t, text, "call=HandleBatch")
		require.Contains(t, text, "code=FailedPrecondition")
		require.Contains(t, text, "reason=UNIT_REJECTED")
		require.NotContains(t, text, secret)
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	names := ""
	for _, family := range families {
		names += family.GetName() + " "
	}
	require.Contains(t, names, "grpc_client_handled_total")
	require.Contains(t, names, "grpc_client_handling_seconds")
}

// Both ends take what the contract allows, and what is above it is never sent.
func TestSizes(t *testing.T) {
	recorder := &recorder{}
	remote := serveSink(t, recorder)
	_, err := remote.Capabilities(timed(t)) // a request may be 4 MiB
	require.NoError(t, err)
	unit := func(size int) *core.Unit {
		u := idle()
		u.Transactions = []core.Transaction{{CommitLSN: 4, EndLSN: 5, Changes: []core.Change{
			{Op: core.OpInsert, Relation: people(), New: core.PackTuple(core.Text("1"), core.Value{Kind: core.ValueText, Text: make([]byte, size)})},
		}}}
		return u
	}
	_, err = remote.HandleBatch(timed(t), unit(40<<20)) // beyond gRPC's own 4 MiB
	require.NoError(t, err)
	_, err = remote.HandleBatch(timed(t), unit(64<<20))
	failure := sinkFailure(t, err)
	require.Equal(t, core.ClassTooBig, failure.Class)
	require.True(t, failure.NeverSent)

	large := serveSink(t, puller{handle: func(ctx context.Context, large core.LargeTransaction) (core.Ack, error) {
		_, _, _, err := pullAll(ctx, large)
		return core.Ack{}, err
	}})
	wide := people()
	wide.Columns[1].Name = strings.Repeat("x", core.RequestBytesDefault)
	_, err = large.HandleLargeTransaction(timed(t), &source{relation: wide, pieces: 1})
	require.Equal(t, core.ClassTooBig, sinkFailure(t, err).Class, "a frame above the sink's limit")
}

// Some servers refuse an authority that is the path of a socket.
func TestAuthorityOfASocket(t *testing.T) {
	authority := make(chan []string, 1)
	remote := serveGenerated(t, &slow{handle: func(ctx context.Context) {
		incoming, _ := metadata.FromIncomingContext(ctx)
		authority <- incoming.Get(":authority")
	}})
	_, err := remote.HandleBatch(timed(t), idle())
	require.NoError(t, err)
	require.Equal(t, []string{"localhost"}, <-authority)
}
