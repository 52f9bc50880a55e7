package conformance_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/badsinks"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// declines stands before a sink and declines tables without a key.
type declines struct {
	sinkv1.UnimplementedSinkServiceServer
	sink sinkv1.SinkServiceClient
}

func (d declines) GetCapabilities(ctx context.Context, r *sinkv1.GetCapabilitiesRequest) (*sinkv1.GetCapabilitiesResponse, error) {
	return d.sink.GetCapabilities(ctx, r)
}

func (d declines) Checkpoint(ctx context.Context, r *sinkv1.CheckpointRequest) (*sinkv1.CheckpointResponse, error) {
	return d.sink.Checkpoint(ctx, r)
}

func (d declines) HandleTransaction(ctx context.Context, r *sinkv1.HandleTransactionRequest) (*sinkv1.HandleTransactionResponse, error) {
	for _, relation := range r.GetRelations() {
		keys := 0
		for _, c := range relation.GetColumns() {
			keys += int(c.GetPrimaryKeyPosition())
		}
		if keys == 0 {
			_ = grpc.SetTrailer(ctx, metadata.Pairs(sinkv1.ReasonMetadata, "SCHEMA_DECLINED"))
			return nil, status.Error(codes.FailedPrecondition, "a table without a key")
		}
	}
	return d.sink.HandleTransaction(ctx, r)
}

// TestASinkMayDeclineTablesWithoutAKey: one lawful refusal must not fail the many cases that
// have such a table beside what they are about.
func TestASinkMayDeclineTablesWithoutAKey(t *testing.T) {
	o := quick(t, badsinks.Minimal(), "")
	require.NoError(t, o.Target.Start(t.Context()))
	conn, err := grpc.NewClient(o.Target.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	require.NoError(t, err)
	defer conn.Close()
	server := conformance.NewServer("unix:"+t.TempDir()+"/s", func(ctx context.Context, address string) error {
		l, err := net.Listen("unix", strings.TrimPrefix(address, "unix:"))
		if err != nil {
			return err
		}
		g := grpc.NewServer()
		sinkv1.RegisterSinkServiceServer(g, declines{sink: sinkv1.NewSinkServiceClient(conn)})
		defer context.AfterFunc(ctx, g.Stop)()
		return g.Serve(l)
	})
	o.Target, o.Crashers, o.Patience = server, nil, time.Minute
	o.Run = []string{"IDM-004", "IDM-005", "IDM-009", "IDM-014", "CNC-*", "OPS-001", "OPS-003"}
	sum, err := conformance.Run(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, server.Stop(t.Context()))
	for _, r := range sum.Results {
		switch {
		case r.ID == "IDM-009" || r.ID == "OPS-003":
			require.Equal(t, conformance.NotApplicable, r.Skip, r.ID)
		case r.Skip != conformance.NotPossible:
			require.Equal(t, conformance.Pass, r.Verdict, "%s: %+v", r.ID, r.Failure)
		}
	}
	require.Equal(t, conformance.ExitPass, sum.Exit)
	require.Contains(t, strings.Join(sum.Notes, "\n"), "declines tables without a key")

	o = quick(t, badsinks.Full(), "")
	o.Run = []string{"IDM-009", "OPS-003"}
	sum, err = conformance.Run(t.Context(), o)
	require.NoError(t, err)
	require.Empty(t, sum.Notes)
	for _, r := range sum.Results {
		require.Equal(t, conformance.Pass, r.Verdict, r.ID)
	}
}
