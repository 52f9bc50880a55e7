package conformance_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/report"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// loud is a sink that writes into the report what it should not.
type loud struct {
	sinkv1.UnimplementedSinkServiceServer
}

const loudName = "my sink\n\x1b[2J\u202eCONFORMANT\u009b"

func (loud) GetCapabilities(context.Context, *sinkv1.GetCapabilitiesRequest) (*sinkv1.GetCapabilitiesResponse, error) {
	a := &sinkv1.GetCapabilitiesResponse{
		SinkName: loudName + strings.Repeat("n", 3000), SinkVersion: loudName + strings.Repeat("v", 3000),
		InstanceId: make([]byte, sinkv1.IDBytes), SinkKind: sinkv1.SinkKind_SINK_KIND_STATE_MIRROR,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_CHECKPOINT, sinkv1.Capability_CAPABILITY_TRANSACTION},
	}
	for i := range 3000 {
		a.Capabilities = append(a.Capabilities, sinkv1.Capability(1000+i), 999)
		a.Fencing = append(a.Fencing, sinkv1.Fencing(1000+i))
	}
	return a, nil
}

func (loud) Checkpoint(ctx context.Context, _ *sinkv1.CheckpointRequest) (*sinkv1.CheckpointResponse, error) {
	_ = grpc.SetTrailer(ctx, metadata.Pairs(sinkv1.ReasonMetadata, "UNIT_REJECTED secret-row-value"+strings.Repeat("v", 3000)))
	return nil, status.Error(codes.FailedPrecondition, "secret-row-value")
}

// TestWhatASinkSaysOfItselfIsBounded: a report is passed around and printed at terminals, so
// neither a reason with a row's value nor a name that clears the screen goes into it.
func TestWhatASinkSaysOfItselfIsBounded(t *testing.T) {
	server := conformance.NewServer("unix:"+t.TempDir()+"/s", func(ctx context.Context, address string) error {
		l, err := net.Listen("unix", strings.TrimPrefix(address, "unix:"))
		if err != nil {
			return err
		}
		g := grpc.NewServer()
		sinkv1.RegisterSinkServiceServer(g, loud{})
		defer context.AfterFunc(ctx, g.Stop)()
		return g.Serve(l)
	})
	sum, err := conformance.Run(t.Context(), conformance.Options{Target: server, Patience: 20 * time.Second, Run: []string{"CKP-001", "CAP-001"}})
	require.NoError(t, err)
	require.NoError(t, server.Stop(t.Context()))
	require.Contains(t, sum.Sink.Name, "my sink??[2J?CONFORMANT?")
	require.Equal(t, conformance.ExitFailures, sum.Exit)
	raw := *sum // what another program may have written
	raw.Sink.Name, raw.Sink.Version = loudName+strings.Repeat("n", 3000), loudName
	for _, format := range report.Formats() {
		for _, s := range []*conformance.Summary{sum, &raw} {
			if s == &raw && format == "jsonl" {
				continue
			}
			var b strings.Builder
			require.NoError(t, report.Write(&b, format, s))
			require.NotContains(t, b.String(), "secret-row-value", format)
			require.NotContains(t, b.String(), "vvvvvvvvvvvvv"+strings.Repeat("v", 200), format)
			require.NotContains(t, b.String(), strings.Repeat("n", 200), format)
			for _, r := range b.String() {
				require.True(t, r == '\n' || r == '\t' || unicode.IsGraphic(r), "%s: %q", format, r)
			}
			require.NotRegexp(t, `(?m)^[^a-zA-Z]*CONFORMANT`, b.String(), format)
		}
		if format == "text" || format == "html" {
			var b strings.Builder
			require.NoError(t, report.Write(&b, format, sum))
			require.Contains(t, b.String(), "not a reason", format)
			require.Less(t, b.Len(), 30_000, format)
		}
	}
	require.LessOrEqual(t, len(sum.Notes), 11)
	require.LessOrEqual(t, len(sum.Sink.Fencing), 10)
}
