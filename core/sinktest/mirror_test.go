package sinktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
)

var (
	items = &core.Relation{OID: 1, Schema: "public", Name: "t", Identity: core.IdentityDefault, Columns: []core.Column{
		{Name: "id", Identity: true, PrimaryKeyPosition: 1}, {Name: "n"}, {Name: "doc"},
	}}
	bag = &core.Relation{OID: 2, Schema: "public", Name: "t", Identity: core.IdentityFull, Columns: []core.Column{
		{Name: "id", Identity: true}, {Name: "n", Identity: true}, {Name: "doc", Identity: true},
	}}
	unchanged = core.Value{Kind: core.ValueUnchanged}
	absent    = core.Value{Kind: core.ValueAbsent}
)

func row(id, n, doc string) core.Tuple {
	return core.PackTuple(core.Text(id), core.Text(n), core.Text(doc))
}

func holed(id, n string) core.Tuple { return core.PackTuple(core.Text(id), core.Text(n), unchanged) }

func key(id string) core.Tuple { return core.PackTuple(core.Text(id), absent, absent) }

func insert(t core.Tuple) core.Change {
	return core.Change{Op: core.OpInsert, Relation: items, New: t}
}

func update(t core.Tuple) core.Change {
	return core.Change{Op: core.OpUpdate, Relation: items, New: t}
}

func move(from string, t core.Tuple) core.Change {
	return core.Change{Op: core.OpUpdate, Relation: items, OldKind: core.OldKey, Old: key(from), New: t}
}

func gone(id string) core.Change {
	return core.Change{Op: core.OpDelete, Relation: items, OldKind: core.OldKey, Old: key(id)}
}

func chunk(generation uint64, rows ...core.Tuple) *core.SnapshotUnit {
	return &core.SnapshotUnit{Generation: generation, Relation: items, Rows: rows}
}

func opening(generation uint64, reset core.SnapshotReset, rows ...core.Tuple) *core.SnapshotUnit {
	u := chunk(generation, rows...)
	u.First, u.Reset = true, reset
	return u
}

// shown is the rows, each with its origin (s or c, for stream and copy) and generation.
func shown(rows []sinktest.Row) []string {
	var list []string
	for _, r := range rows {
		text := ""
		for _, name := range []string{"id", "n", "doc"} {
			v := r.Values[name]
			switch v.Kind {
			case core.ValueText:
				text += string(v.Text) + " "
			case core.ValueUnchanged:
				text += "? "
			default:
				text += "- "
			}
		}
		origin := "s"
		if r.FromSnapshot {
			origin = "c"
		}
		list = append(list, fmt.Sprintf("%s%s%d", text, origin, r.Generation))
	}
	return list
}

// Each case is a rule of the contract; steps are units of snapshots and transactions of
// the stream.
func TestMirrorKeepsTheRules(t *testing.T) {
	for name, c := range map[string]struct {
		ignore bool
		steps  []any
		want   []string
	}{
		"a chunk row replaces the whole row, and never the stream's origin": {
			steps: []any{
				insert(row("1", "a", "A")), opening(1, core.ResetSnapshotRows, row("1", "b", "B"), row("2", "b", "B")),
				chunk(1, core.PackTuple(core.Text("2"), core.Null(), core.Text("C"))),
			},
			want: []string{"1 b B s1", "2 - C c1"},
		},
		"an incomplete row is completed": {
			steps: []any{update(holed("1", "a")), chunk(1, row("1", "b", "B"))},
			want:  []string{"1 b B s1"},
		},
		"a change of the stream makes a row the stream's": {
			steps: []any{chunk(1, row("1", "a", "A"), row("2", "a", "A")), update(holed("1", "b")), opening(1, core.ResetSnapshotRows)},
			want:  []string{"1 b A s1"},
		},
		"a reset of all": {
			steps: []any{insert(row("1", "a", "A")), opening(1, core.ResetAll, row("2", "b", "B"))},
			want:  []string{"2 b B c1"},
		},
		"a sweep keeps what the stream touched": {
			steps: []any{
				chunk(1, row("1", "a", "A"), row("2", "a", "A"), row("3", "a", "A")), &core.SnapshotUnit{Generation: 2},
				update(row("2", "b", "B")), insert(row("4", "b", "B")), chunk(2, row("1", "c", "C")),
				&core.SnapshotUnit{Generation: 2, Relation: items, Last: true, Sweep: true},
			},
			want: []string{"1 c C c2", "2 b B s2", "4 b B s2"},
		},
		"a last unit without sweep removes nothing": {
			steps: []any{chunk(1, row("1", "a", "A")), &core.SnapshotUnit{Generation: 2, Relation: items, Last: true}},
			want:  []string{"1 a A c1"},
		},
		"a key change takes from the old key's row": {
			steps: []any{insert(row("1", "a", "ONE")), insert(row("2", "a", "TWO")), move("1", holed("2", "b"))},
			want:  []string{"2 b ONE s0"},
		},
		"else from the new key's": {
			steps: []any{insert(row("2", "a", "TWO")), move("1", holed("2", "b"))},
			want:  []string{"2 b TWO s0"},
		},
		"else it is unknown": {
			steps: []any{move("1", holed("2", "b")), update(holed("3", "c"))},
			want:  []string{"2 b ? s0", "3 c ? s0"},
		},
		"or left out": {
			ignore: true,
			steps:  []any{move("1", holed("2", "b")), update(holed("3", "c")), update(row("4", "d", "D")), insert(row("5", "e", "E")), move("5", holed("6", "f"))},
			want:   []string{"4 d D s0", "6 f E s0"},
		},
		"unknown rows": {
			steps: []any{gone("1"), update(row("2", "b", "B"))},
			want:  []string{"2 b B s0"},
		},
		"a truncate removes both origins": {
			steps: []any{
				insert(row("1", "a", "A")), chunk(1, row("2", "a", "A")),
				core.Change{Op: core.OpTruncate, Truncate: &core.Truncate{Relations: []*core.Relation{items}}},
			},
		},
		"equal rows without a key": {
			steps: []any{
				&core.SnapshotUnit{Generation: 1, Relation: bag, First: true, Reset: core.ResetAll, Rows: []core.Tuple{row("1", "a", "A"), row("1", "a", "A"), row("1", "a", "A")}},
				core.Change{Op: core.OpDelete, Relation: bag, OldKind: core.OldFull, Old: row("1", "a", "A")},
				core.Change{Op: core.OpUpdate, Relation: bag, OldKind: core.OldFull, Old: row("1", "a", "A"), New: row("1", "b", "A")},
			},
			want: []string{"1 a A c1", "1 b A s1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := sinktest.Mirror{IgnoreHoles: c.ignore}
			for _, step := range c.steps {
				switch step := step.(type) {
				case core.Change:
					m.Apply([]core.Change{step})
				case *core.SnapshotUnit:
					m.Snapshot(step)
				}
			}
			require.Equal(t, c.want, shown(m.Rows("public", "t")))
		})
	}
}

func TestMemoryTakesSnapshots(t *testing.T) {
	ctx := context.Background()
	m := sinktest.NewMemory()
	_, err := m.Checkpoint(ctx, core.CheckpointRequest{Claim: &core.Claim{Epoch: 2}})
	require.NoError(t, err)
	unit := opening(1, core.ResetAll, row("1", "a", "A"))
	refused := func(call core.Call, expected core.LSN, want core.Reason) {
		t.Helper()
		unit.Call, unit.Expected = call, expected
		_, err := m.HandleSnapshot(ctx, unit)
		refusal, _ := errors.AsType[*core.Refusal](err)
		require.NotNil(t, refusal)
		require.Equal(t, want, refusal.Reason)
	}
	refused(core.Call{Epoch: 1}, 0, core.ReasonFenced)
	refused(core.Call{Epoch: 3}, 0, core.ReasonCheckpointBehind)
	refused(core.Call{Epoch: 2}, 7, core.ReasonCheckpointBehind)
	require.Empty(t, m.Rows("public", "t"))

	unit.Call, unit.Expected = core.Call{Epoch: 2}, 0
	token, err := m.SnapshotProgress(ctx, core.SnapshotProgressRequest{})
	require.NoError(t, err)
	require.Nil(t, token)
	unit.Token = []byte("x")
	_, err = m.HandleSnapshot(ctx, unit)
	require.NoError(t, err)
	unit.Token = nil
	_, err = m.HandleSnapshot(ctx, unit)
	require.NoError(t, err)
	require.Equal(t, []byte("x"), m.Token(), "a unit without a token keeps it")
	require.Len(t, m.SnapshotUnits(), 2)

	done := &core.SnapshotCompleteUnit{Call: unit.Call, Checkpoint: 100}
	for range 2 {
		ack, err := m.HandleSnapshotComplete(ctx, done)
		require.NoError(t, err)
		require.Equal(t, core.LSN(100), ack.Checkpoint)
	}
	require.Len(t, m.Completed(), 1)
	require.Equal(t, core.LSN(100), m.Stored().Position)
	// A commit record that starts exactly at the consistent point is not in the copy.
	ack, err := m.HandleBatch(ctx, &core.Unit{Call: unit.Call, Expected: 100, Checkpoint: 150, Transactions: []core.Transaction{
		{CommitLSN: 100, EndLSN: 150, Changes: []core.Change{insert(row("2", "b", "B"))}},
	}})
	require.NoError(t, err)
	require.Zero(t, *ack.Counts.ReplayedTransactions)
	require.Equal(t, []string{"1 a A c1", "2 b B s1"}, shown(m.Rows("public", "t")))
}
