package testsink_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/judge"
)

// copier is a sink behind its claim, called as a sidecar calls it.
type copier struct {
	*testing.T
	db   *pgtest.DB
	conn *pgx.Conn
	sink core.Sink
	at   core.LSN
}

func newCopier(t *testing.T, config testsink.Config) *copier {
	t.Helper()
	db := pgtest.Shared(t, 17).Database(t)
	config.DSN = db.DSN
	store := testsink.Open(config)
	t.Cleanup(store.Close)
	c := &copier{T: t, db: db, conn: db.Conn(t), sink: store.Sink()}
	_, err := c.sink.(core.CheckpointHandler).Checkpoint(t.Context(), core.CheckpointRequest{
		StreamID: "s", Source: copySource, Claim: &core.Claim{Epoch: 1},
	})
	require.NoError(t, err)
	return c
}

var (
	copySource = core.SourceIdentity{SystemIdentifier: "1", Database: "d"}
	copyCall   = core.Call{StreamID: "s", Owner: core.OwnerSink, Epoch: 1}
)

// stream delivers one transaction.
func (c *copier) stream(changes ...core.Change) {
	c.Helper()
	c.at += 10
	_, err := c.sink.(core.BatchHandler).HandleBatch(c.Context(), &core.Unit{
		Call: copyCall, Expected: c.at - 10, Checkpoint: c.at,
		Transactions: []core.Transaction{{CommitLSN: c.at - 5, EndLSN: c.at, Changes: changes}},
	})
	require.NoError(c, err)
}

func (c *copier) unit(u core.SnapshotUnit) {
	c.Helper()
	u.Call, u.Expected = copyCall, c.at
	_, err := c.sink.(core.SnapshotHandler).HandleSnapshot(c.Context(), &u)
	require.NoError(c, err)
}

// rows delivers rows of a run; open puts first_for_table on the unit.
func (c *copier) rows(generation uint64, r *core.Relation, open core.SnapshotReset, rows ...core.Tuple) {
	c.Helper()
	c.unit(core.SnapshotUnit{RunID: [16]byte{byte(generation)}, Generation: generation, Relation: r, First: open != 0, Reset: open, Rows: rows, LSN: 7})
}

func (c *copier) sweep(generation uint64, r *core.Relation) {
	c.Helper()
	c.unit(core.SnapshotUnit{RunID: [16]byte{byte(generation)}, Generation: generation, Relation: r, Last: true, Sweep: true})
}

// has compares the rows, each with its origin (s or c, for stream and copy) and its
// generation.
func (c *copier) has(want ...string) {
	c.Helper()
	rows, err := c.conn.Query(c.Context(), `SELECT id || ' ' || coalesce(n, '-') || ' ' || coalesce(doc, '-') || ' ' ||
CASE WHEN "testsink.snapshot" THEN 'c' ELSE 's' END || "testsink.generation" FROM t ORDER BY id, n`)
	require.NoError(c, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(c, err)
	require.Equal(c, want, all)
}

func three(id, n, doc string) core.Tuple {
	return core.PackTuple(core.Text(id), core.Text(n), core.Text(doc))
}

func update(r *core.Relation, values ...core.Value) core.Change {
	return core.Change{Op: core.OpUpdate, Relation: r, New: core.PackTuple(values...)}
}

func gone(r *core.Relation, id string) core.Change {
	return core.Change{Op: core.OpDelete, Relation: r, OldKind: core.OldKey, Old: core.PackTuple(core.Text(id), absent(), absent())}
}

// A row of a chunk replaces the whole row, and leaves the origin of one that the stream
// wrote. A change of the stream takes the mark of the snapshot away.
func TestChunkRowsAndOrigins(t *testing.T) {
	c := newCopier(t, testsink.Config{Kind: testsink.KindBoth})
	r := relation()
	c.stream(insert(r, core.Text("1"), core.Text("a"), core.Text("A")))
	c.rows(1, r, core.ResetSnapshotRows, three("1", "b", "B"), three("2", "b", "B"), three("3", "b", "B"))
	c.has("1 b B s1", "2 b B c1", "3 b B c1")
	c.stream(update(r, core.Text("2"), core.Text("c"), unchanged()))
	c.rows(1, r, 0, three("2", "d", "D"), core.PackTuple(core.Text("3"), core.Null(), core.Null()))
	c.has("1 b B s1", "2 d D s1", "3 - - c1")
	c.rows(2, r, core.ResetSnapshotRows)
	c.has("1 b B s1", "2 d D s1")
	c.rows(2, r, core.ResetAll, three("9", "e", "E"))
	c.has("9 e E c2")
}

// A sweep removes what neither this run nor the stream has touched since it began.
func TestSweepKeepsWhatTheStreamTouched(t *testing.T) {
	c := newCopier(t, testsink.Config{})
	r := relation()
	c.rows(1, r, core.ResetSnapshotRows, three("1", "a", "A"), three("2", "a", "A"), three("3", "a", "A"), three("4", "a", "A"))
	c.unit(core.SnapshotUnit{Generation: 2, Token: []byte("t")}) // arms the second run
	c.stream(update(r, core.Text("2"), core.Text("b"), unchanged()), insert(r, core.Text("5"), core.Text("b"), core.Text("B")))
	c.stream(moved(r, "3", core.Text("6"), core.Text("b"), unchanged()))
	c.rows(2, r, 0, three("1", "c", "C"))
	c.has("1 c C c2", "2 b A s2", "4 a A c1", "5 b B s2", "6 b A s2")
	c.sweep(2, r)
	c.has("1 c C c2", "2 b A s2", "5 b B s2", "6 b A s2")
}

// Columns that a key change does not carry are those of the old key's row, else of the
// row at the new key, else unknown; a later chunk fills them in.
func TestKeyChangesWithUnchangedColumns(t *testing.T) {
	c := newCopier(t, testsink.Config{})
	r := relation()
	c.rows(1, r, core.ResetSnapshotRows, three("1", "a", "ONE"), three("2", "a", "TWO"), three("3", "a", "THREE"))
	c.stream(moved(r, "1", core.Text("2"), core.Text("b"), unchanged())) // both known: the old key's
	c.stream(moved(r, "8", core.Text("3"), core.Text("b"), unchanged())) // old unknown: the new key's
	c.stream(moved(r, "9", core.Text("7"), core.Text("b"), unchanged())) // neither
	c.stream(update(r, core.Text("6"), core.Text("b"), unchanged()))     // unknown row
	c.stream(gone(r, "5"))                                               // unknown row
	c.has("2 b ONE s1", "3 b THREE s1", "6 b - s1", "7 b - s1")
	c.rows(1, r, 0, three("6", "b", "SIX"), three("7", "b", "SEVEN"))
	c.has("2 b ONE s1", "3 b THREE s1", "6 b SIX s1", "7 b SEVEN s1")
}

// The other lawful way: a row of which a column is not known is left out.
func TestHolesMayBeIgnored(t *testing.T) {
	c := newCopier(t, testsink.Config{IgnoreHoles: true})
	r := relation()
	c.rows(1, r, core.ResetSnapshotRows, three("1", "a", "ONE"), three("2", "a", "TWO"), three("3", "a", "THREE"))
	c.stream(moved(r, "1", core.Text("2"), core.Text("b"), unchanged()))
	c.stream(moved(r, "8", core.Text("3"), core.Text("b"), unchanged()))
	c.stream(moved(r, "9", core.Text("7"), core.Text("b"), unchanged()))
	c.stream(update(r, core.Text("6"), core.Text("b"), unchanged()), update(r, core.Text("5"), core.Text("b"), core.Text("FIVE")))
	c.has("2 b ONE s1", "3 b THREE s1", "5 b FIVE s1")
	c.stream(update(r, core.Text("2"), core.Text("c"), unchanged()))
	c.has("2 c ONE s1", "3 b THREE s1", "5 b FIVE s1")
}

// Tables without a key have no row to replace; a truncate removes rows of both origins.
func TestTablesWithoutAKeyAndTruncate(t *testing.T) {
	c := newCopier(t, testsink.Config{})
	r := relation()
	r.Identity = core.IdentityFull
	r.Columns[0].Identity, r.Columns[0].PrimaryKeyPosition = false, 0
	c.stream(insert(r, core.Text("1"), core.Text("a"), core.Text("A")))
	c.rows(1, r, core.ResetAll, three("1", "b", "B"), three("1", "b", "B"))
	c.stream(core.Change{Op: core.OpUpdate, Relation: r, OldKind: core.OldFull, Old: three("1", "b", "B"), New: three("1", "c", "C")})
	c.has("1 b B c1", "1 c C s1")
	c.stream(core.Change{Op: core.OpTruncate, Truncate: &core.Truncate{Relations: []*core.Relation{r}}})
	require.Empty(t, stored(t, c.db))
}

// Token, generation and rows are one store transaction, and the units can be read back.
func TestSnapshotIsNoted(t *testing.T) {
	c := newCopier(t, testsink.Config{Kind: testsink.KindBoth})
	r := relation()
	progress := func() []byte {
		token, err := c.sink.(core.SnapshotProgressHandler).SnapshotProgress(c.Context(), core.SnapshotProgressRequest{StreamID: "s", Source: copySource})
		require.NoError(t, err)
		return token
	}
	require.Nil(t, progress())
	c.unit(core.SnapshotUnit{Generation: 1, Token: []byte{}})
	require.Equal(t, []byte{}, progress())
	c.unit(core.SnapshotUnit{Generation: 1, Token: []byte("a\x00\xff")})
	c.rows(1, r, core.ResetSnapshotRows, three("1", "a", "A"))
	require.Equal(t, []byte("a\x00\xff"), progress(), "a unit without a token keeps it")
	c.unit(core.SnapshotUnit{Generation: 1, BackfillComplete: true})
	ack, err := c.sink.(core.SnapshotCompleteHandler).HandleSnapshotComplete(c.Context(), &core.SnapshotCompleteUnit{
		Call: copyCall, Checkpoint: 50, Generation: 1, Relations: []*core.Relation{r},
	})
	require.NoError(t, err)
	require.Equal(t, core.LSN(50), ack.Checkpoint)
	report, err := judge.Copies(c.Context(), c.db.DSN, "s")
	require.NoError(t, err)
	require.Len(t, report.Units, 4)
	require.Equal(t, 1, report.Completions)
	require.Equal(t, 1, report.Of("public.t")[0].Rows)
	require.True(t, report.Units[3].Complete)
	log, err := judge.Log(context.Background(), c.db.DSN, "s")
	require.NoError(t, err)
	require.Zero(t, log.Entries, "rows of a snapshot are no transaction")
}

// The sink holds what the reference does, after every step of stories that meet every case.
func TestMirrorHoldsWhatTheReferenceDoes(t *testing.T) {
	const stories, steps = 6, 40
	for seed := range uint64(stories) {
		for _, relation := range []*core.Relation{sinktest.Keyed, sinktest.Keyless} {
			ignore := seed%2 == 1
			reference := sinktest.Mirror{IgnoreHoles: ignore}
			c := newCopier(t, testsink.Config{IgnoreHoles: ignore})
			for i, step := range sinktest.Steps(seed, steps, relation) {
				if step.Unit != nil {
					reference.Snapshot(step.Unit)
					c.unit(*step.Unit)
				} else {
					reference.Apply([]core.Change{*step.Change})
					c.stream(*step.Change)
				}
				want := []string{}
				for _, r := range reference.Rows(relation.Schema, relation.Name) {
					want = append(want, shown(r, relation == sinktest.Keyed))
				}
				slices.Sort(want)
				require.Equal(t, want, c.all(relation), "seed %d, %s, step %d", seed, relation, i)
			}
		}
	}
}

func shown(r sinktest.Row, keyed bool) string {
	text := ""
	for _, name := range []string{"a", "b", "n", "doc"} {
		if v := r.Values[name]; v.Kind == core.ValueText {
			text += string(v.Text)
		} else {
			text += "-"
		}
		text += " "
	}
	if !keyed {
		return text
	}
	return fmt.Sprintf("%s%t %d", text, r.FromSnapshot, r.Generation)
}

// all is the table as shown shows it. A table that was never written does not exist, and
// has no marks before the first unit.
func (c *copier) all(relation *core.Relation) []string {
	c.Helper()
	conn := c.conn
	marks := ""
	if relation == sinktest.Keyed {
		var marked bool
		require.NoError(c, conn.QueryRow(c.Context(), `SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = 'testsink.snapshot')`,
			relation.Name).Scan(&marked))
		marks = `|| 'false 0'`
		if marked {
			marks = `|| "testsink.snapshot"::text || ' ' || "testsink.generation"`
		}
	}
	var exists bool
	require.NoError(c, conn.QueryRow(c.Context(), `SELECT to_regclass($1) IS NOT NULL`, relation.Name).Scan(&exists))
	if !exists {
		return []string{}
	}
	rows, err := conn.Query(c.Context(), `SELECT coalesce(a, '-') || ' ' || coalesce(b, '-') || ' ' || coalesce(n, '-') || ' ' || coalesce(doc, '-') || ' ' `+
		marks+` FROM `+relation.Name)
	require.NoError(c, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(c, err)
	slices.Sort(all)
	return append([]string{}, all...)
}
