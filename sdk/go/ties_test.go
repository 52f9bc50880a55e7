package sink

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// A commit record may start exactly where the position is: it ends above it and is new,
// whatever call brings it.
func TestWhatStartsAtThePositionIsNew(t *testing.T) {
	ctx := context.Background()
	at := func(position core.LSN) (*memStore, *storeSink) {
		store := newMemStore()
		s := claimed(t, store, 1)
		_, err := s.HandleBatch(ctx, &core.Unit{Call: epoch(1), Checkpoint: position})
		require.NoError(t, err)
		_, streams := store.snapshot()
		require.Equal(t, position, streams["s"].Position, "an idle step is stored")
		return store, s
	}
	store, s := at(25)
	_, err := s.HandleTransaction(ctx, &core.Unit{Call: epoch(1), Expected: 25, Checkpoint: 30,
		Transactions: []core.Transaction{{CommitLSN: 25, EndLSN: 30, Changes: insertOf(1)}}})
	require.NoError(t, err)
	rows, _ := store.snapshot()
	require.Len(t, rows, 1)

	store, s = at(25)
	ack, err := s.HandleLargeTransaction(ctx, large(30)) // commits at 25
	require.NoError(t, err)
	require.Zero(t, *ack.Counts.ReplayedTransactions)
	rows, streams := store.snapshot()
	require.Len(t, rows, 3)
	require.Equal(t, core.LSN(30), streams["s"].Position)
}
