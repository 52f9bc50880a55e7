package testsink_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// relation is a table (id, n, doc) with a key.
func relation() *core.Relation {
	return &core.Relation{OID: 1, Schema: "public", Name: "t", Identity: core.IdentityDefault, Columns: []core.Column{
		{Name: "id", Identity: true, PrimaryKeyPosition: 1}, {Name: "n"}, {Name: "doc"},
	}}
}

func unchanged() core.Value { return core.Value{Kind: core.ValueUnchanged} }
func absent() core.Value    { return core.Value{Kind: core.ValueAbsent} }

func insert(r *core.Relation, values ...core.Value) core.Change {
	return core.Change{Op: core.OpInsert, Relation: r, New: core.PackTuple(values...)}
}

func moved(r *core.Relation, from string, values ...core.Value) core.Change {
	return core.Change{
		Op: core.OpUpdate, Relation: r, OldKind: core.OldKey,
		Old: core.PackTuple(core.Text(from), absent(), absent()), New: core.PackTuple(values...),
	}
}

// apply commits changes as one transaction.
func apply(t *testing.T, store *testsink.Store, pieces ...[]core.Change) {
	t.Helper()
	tx, err := store.Begin(t.Context(), "s")
	require.NoError(t, err)
	first := uint64(0)
	for _, changes := range pieces {
		piece := &core.Transaction{CommitLSN: 1, Changes: changes}
		if len(pieces) == 1 {
			piece.EndLSN = 2
		}
		require.NoError(t, tx.Apply(piece, first))
		first += uint64(len(changes))
		if len(pieces) == 1 {
			continue
		}
		for _, c := range changes { // the memory of a piece is used again
			for i := range c.New.Packed() {
				c.New.Packed()[i] = 'x'
			}
		}
	}
	require.NoError(t, tx.Commit())
}

func stored(t *testing.T, db *pgtest.DB) []string {
	t.Helper()
	rows, err := db.Conn(t).Query(t.Context(), "SELECT id || ' ' || coalesce(n, '-') || ' ' || coalesce(doc, '-') FROM t ORDER BY id")
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

// TestMoves: where unchanged columns of a key change come from (S-404), also where a
// repeat meets what it did before, and an update of a row that is not there (S-403).
func TestMoves(t *testing.T) {
	for name, c := range map[string]struct {
		before []core.Change
		change core.Change
		want   []string
	}{
		"from the old key's row": {
			[]core.Change{insert(relation(), core.Text("1"), core.Text("a"), core.Text("old"))},
			moved(relation(), "1", core.Text("2"), core.Text("b"), unchanged()), []string{"2 b old"}},
		"from the old key's row over another": {
			[]core.Change{insert(relation(), core.Text("1"), core.Text("a"), core.Text("old")), insert(relation(), core.Text("2"), core.Text("a"), core.Text("new"))},
			moved(relation(), "1", core.Text("2"), core.Text("b"), unchanged()), []string{"2 b old"}},
		"from the new key's row": {
			[]core.Change{insert(relation(), core.Text("2"), core.Text("a"), core.Text("new"))},
			moved(relation(), "1", core.Text("2"), core.Text("b"), unchanged()), []string{"2 b new"}},
		"unknown": {nil, moved(relation(), "1", core.Text("2"), core.Text("b"), unchanged()), []string{"2 b -"}},
		"update of an unknown row": {nil,
			core.Change{Op: core.OpUpdate, Relation: relation(), New: core.PackTuple(core.Text("1"), core.Text("b"), unchanged())}, []string{"1 b -"}},
		"the key itself is unchanged": {
			[]core.Change{insert(relation(), core.Text("1"), core.Text("a"), core.Text("old"))},
			moved(relation(), "1", unchanged(), core.Text("b"), unchanged()), []string{"1 b old"}},
		"the key itself is unchanged, of an unknown row": {nil,
			moved(relation(), "1", unchanged(), core.Text("b"), core.Text("c")), []string{"1 b c"}},
		"delete of an unknown row": {nil,
			core.Change{Op: core.OpDelete, Relation: relation(), OldKind: core.OldKey, Old: core.PackTuple(core.Text("1"), absent(), absent())}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Shared(t, 17).Database(t)
			store := testsink.Open(testsink.Config{DSN: db.DSN})
			defer store.Close()
			apply(t, store, append(c.before, c.change))
			require.Equal(t, c.want, stored(t, db))
		})
	}
}

// TestPieces: the rows of a piece are written before its memory is used again.
func TestPieces(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	store := testsink.Open(testsink.Config{DSN: db.DSN})
	defer store.Close()
	r := relation()
	apply(t, store, []core.Change{insert(r, core.Text("1"), core.Text("a"), core.Text("b"))},
		[]core.Change{insert(r, core.Text("2"), core.Text("c"), core.Text("d"))})
	require.Equal(t, []string{"1 a b", "2 c d"}, stored(t, db))
}

// TestRefusals: what the destination cannot take, and what is certainly not done. No
// text of the server, which may quote a row, is in an error.
func TestRefusals(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	store := testsink.Open(testsink.Config{DSN: db.DSN})
	defer store.Close()
	r := relation()
	apply(t, store, []core.Change{insert(r, core.Text("1"), core.Text("a"), core.Text("b"))})
	db.Exec(t, "ALTER TABLE t ADD CHECK (n <> 'secret')")
	refused := func(reason core.Reason, work func(tx sink.StoreTx) error) {
		t.Helper()
		tx, err := store.Begin(t.Context(), "s")
		require.NoError(t, err)
		err = work(tx)
		if err == nil {
			err = tx.Commit()
		}
		refusal := new(core.Refusal)
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, reason, refusal.Reason)
		require.NotContains(t, err.Error(), "secret")
		require.NoError(t, tx.Rollback())
	}
	refused(core.ReasonUnitRejected, func(tx sink.StoreTx) error {
		return tx.Apply(&core.Transaction{EndLSN: 2, Changes: []core.Change{insert(r, core.Text("2"), core.Text("secret"), core.Null())}}, 0)
	})
	other := &core.Relation{OID: 1, Schema: "public", Name: "t", Identity: core.IdentityDefault, Columns: []core.Column{{Name: "n", Identity: true}}}
	refused(core.ReasonUnitRejected, func(tx sink.StoreTx) error {
		return tx.Apply(&core.Transaction{EndLSN: 2, Changes: []core.Change{insert(other, core.Text("2"))}}, 0)
	})
	require.Equal(t, []string{"1 a b"}, stored(t, db))

	away := testsink.Open(testsink.Config{DSN: "host=/nonexistent dbname=x"})
	_, err := away.Begin(context.Background(), "s")
	refusal := new(core.Refusal)
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, core.ReasonNotReady, refusal.Reason)
}
