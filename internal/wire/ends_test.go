package wire_test

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/remotesink"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// serveSink serves s on a unix socket of its own and returns the remote end.
func serveSink(t testing.TB, s core.Sink, options ...sink.Option) *remotesink.Sink {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sink")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	options = append([]sink.Option{sink.WithGrace(5 * time.Second)}, options...)
	go func() { served <- sink.ServeListener(ctx, listener, s, options...) }()
	remote, err := remotesink.New(remotesink.Options{Address: "unix:" + path})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, remote.Close())
		cancel()
		require.NoError(t, <-served)
	})
	return remote
}

// recorder is a sink that keeps a copy of what it is called with.
type recorder struct {
	mu    sync.Mutex
	calls []string
	units []core.Unit
	err   error
	panic any
}

func (r *recorder) note(call string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
	if r.panic != nil {
		panic(r.panic)
	}
	return r.err
}

func (r *recorder) Capabilities(context.Context) (core.Capabilities, error) {
	return core.Capabilities{
		Name: "recorder", Version: "1", Kind: core.StateMirror, Fencing: []core.Fencing{core.FencingStored},
		Limits: core.SinkLimits{RequestBytes: 4 << 20, PreferredBytes: 64 << 10, CallDuration: time.Minute},
	}, nil
}

func (r *recorder) Checkpoint(_ context.Context, q core.CheckpointRequest) (core.Checkpoint, error) {
	if err := r.note("Checkpoint"); err != nil {
		return core.Checkpoint{}, err
	}
	return core.Checkpoint{Position: 77, Epoch: 3, Lineage: []byte("lineage"), ResumeState: []byte{}}, nil
}

func (r *recorder) HandleTransaction(_ context.Context, u *core.Unit) (core.Ack, error) {
	return r.unit("HandleTransaction", u)
}

func (r *recorder) HandleBatch(_ context.Context, u *core.Unit) (core.Ack, error) {
	return r.unit("HandleBatch", u)
}

func (r *recorder) unit(call string, u *core.Unit) (core.Ack, error) {
	if err := r.note(call); err != nil {
		return core.Ack{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.units = append(r.units, cloneUnit(u))
	one := uint64(1)
	return core.Ack{Checkpoint: u.Checkpoint, Counts: core.Counts{ReplayedTransactions: &one}}, nil
}

func cloneUnit(u *core.Unit) core.Unit {
	c := *u
	c.ResumeState = append([]byte(nil), u.ResumeState...)
	c.Transactions = nil
	for _, t := range u.Transactions {
		t.Changes = cloneChanges(t.Changes)
		c.Transactions = append(c.Transactions, t)
	}
	return c
}

func cloneChanges(changes []core.Change) []core.Change {
	var out []core.Change
	for _, change := range changes {
		change.New, change.Old = change.New.Clone(), change.Old.Clone()
		out = append(out, change)
	}
	return out
}

func call() core.Call {
	return core.Call{StreamID: "s", Owner: core.OwnerSink, Epoch: 3, SenderID: [16]byte{1}, Sequence: 9, InstanceID: []byte("i")}
}

func people() *core.Relation {
	return &core.Relation{
		OID: 16384, Schema: "public", Name: "people", Identity: core.IdentityDefault,
		Columns: []core.Column{
			{Name: "id", TypeOID: 23, TypeModifier: -1, Identity: true, PrimaryKeyPosition: 1, TypeName: "int4"},
			{Name: "name", TypeOID: 25, TypeModifier: -1, TypeName: "text"},
		},
	}
}

func TestFirstRoad(t *testing.T) {
	recorder := &recorder{}
	remote := serveSink(t, recorder)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	capabilities, err := remote.Capabilities(ctx)
	require.NoError(t, err)
	require.Equal(t, "recorder", capabilities.Name)
	require.Equal(t, "CHECKPOINT,TRANSACTION,BATCH", capabilities.Set.String())
	require.Equal(t, []core.Fencing{core.FencingStored, core.FencingInstance}, capabilities.Fencing)
	require.Len(t, capabilities.InstanceID, 16)

	checkpoint, err := remote.Checkpoint(ctx, core.CheckpointRequest{StreamID: "s", Claim: &core.Claim{Epoch: 3}})
	require.NoError(t, err)
	require.Equal(t, core.Checkpoint{Position: 77, Epoch: 3, Lineage: []byte("lineage"), ResumeState: []byte{}}, checkpoint)

	relation := people()
	unit := &core.Unit{Call: call(), Expected: 77, Checkpoint: 200, Transactions: []core.Transaction{{
		XID: 7, CommitLSN: 100, EndLSN: 150, CommitTime: time.UnixMicro(1700000000123456).UTC(),
		Changes: []core.Change{
			{Op: core.OpInsert, Relation: relation, New: core.PackTuple(core.Text("1"), core.Null())},
			{Op: core.OpDelete, Relation: relation, OldKind: core.OldKey, Old: core.PackTuple(core.Text("1"), core.Value{Kind: core.ValueAbsent})},
		},
	}}}
	ack, err := remote.HandleBatch(ctx, unit)
	require.NoError(t, err)
	require.Equal(t, core.LSN(200), ack.Checkpoint)
	require.Equal(t, uint64(1), *ack.Counts.ReplayedTransactions)
	ack, err = remote.HandleTransaction(ctx, unit)
	require.NoError(t, err)
	require.Equal(t, core.LSN(200), ack.Checkpoint)
	require.Equal(t, []string{"Checkpoint", "HandleBatch", "HandleTransaction"}, recorder.calls)
	for _, got := range recorder.units {
		require.Equal(t, unit.Call, got.Call)
		require.Equal(t, unit.Transactions[0].CommitTime, got.Transactions[0].CommitTime)
		require.Equal(t, unit.Transactions[0].Changes, got.Transactions[0].Changes)
	}
}
