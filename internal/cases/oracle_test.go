package cases_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
)

// The judge is judged first: each fault that it is there for is planted, and found.

// tableOf has columns a, b and so on; letters in key are its identity.
func tableOf(identity core.ReplicaIdentity, columns, key string) *core.Relation {
	r := &core.Relation{OID: 1, Schema: "public", Name: "t", Identity: identity}
	for _, name := range columns {
		column := core.Column{Name: string(name)}
		for _, k := range key {
			column.Identity = column.Identity || k == name
		}
		r.Columns = append(r.Columns, column)
	}
	return r
}

// rowOf is a row of one-letter values: n, u and a are the kinds of that letter.
func rowOf(values string) core.Tuple {
	if values == "" {
		return core.Tuple{}
	}
	var b core.TupleBuilder
	b.Begin(nil, len(values))
	for _, v := range []byte(values) {
		switch v {
		case 'n', 'u', 'a':
			b.Add(core.ValueKind(v), nil)
		default:
			b.Add(core.ValueText, []byte{v})
		}
	}
	t, _ := b.Tuple()
	return t
}

func changeOf(op core.Op, r *core.Relation, kind core.OldKind, old, now string) core.Change {
	return core.Change{Op: op, Relation: r, OldKind: kind, Old: rowOf(old), New: rowOf(now)}
}

func TestModelIsStrict(t *testing.T) {
	const insert, update, remove = core.OpInsert, core.OpUpdate, core.OpDelete
	const none, key, whole = core.OldNone, core.OldKey, core.OldFull
	keyed := tableOf(core.IdentityDefault, "ab", "a")
	bare := tableOf(core.IdentityDefault, "ab", "")
	full := tableOf(core.IdentityFull, "ab", "ab")
	first := changeOf(insert, keyed, none, "", "1x")
	for name, c := range map[string]struct {
		changes []core.Change
		fault   string // empty: the rows are left
		rows    []string
	}{
		"update":              {[]core.Change{first, changeOf(update, keyed, none, "", "1y")}, "", []string{`["a" "b"]: 1:1,1:y,`}},
		"unchanged":           {[]core.Change{first, changeOf(update, keyed, none, "", "1u")}, "", []string{`["a" "b"]: 1:1,1:x,`}},
		"key change":          {[]core.Change{first, changeOf(update, keyed, key, "1a", "2u")}, "", []string{`["a" "b"]: 1:2,1:x,`}},
		"null":                {[]core.Change{first, changeOf(update, keyed, none, "", "1n")}, "", []string{`["a" "b"]: 1:1,null,`}},
		"delete":              {[]core.Change{first, changeOf(remove, keyed, key, "1a", "")}, "", nil},
		"two alike, one goes": {[]core.Change{changeOf(insert, full, none, "", "1x"), changeOf(insert, full, none, "", "1x"), changeOf(remove, full, whole, "1x", "")}, "", []string{`["a" "b"]: 1:1,1:x,`}},
		"truncate":            {[]core.Change{first, {Op: core.OpTruncate, Truncate: &core.Truncate{Relations: []*core.Relation{keyed}}}}, "", nil},

		"insert twice":            {[]core.Change{first, first}, "the key is there already", nil},
		"update of no row":        {[]core.Change{first, changeOf(update, keyed, none, "", "2y")}, "no such row", nil},
		"delete of no row":        {[]core.Change{first, changeOf(remove, keyed, key, "2a", "")}, "no such row", nil},
		"delete without old row":  {[]core.Change{first, changeOf(remove, keyed, none, "", "")}, "there is no old row", nil},
		"new row with a hole":     {[]core.Change{changeOf(insert, keyed, none, "", "1a")}, "is of kind", nil},
		"unchanged in an insert":  {[]core.Change{changeOf(insert, keyed, none, "", "1u")}, "was never told", nil},
		"key absent":              {[]core.Change{first, changeOf(remove, keyed, key, "a1", "")}, "which says what row is meant", nil},
		"key unchanged":           {[]core.Change{first, changeOf(update, keyed, none, "", "u1")}, "which says what row is meant", nil},
		"key change onto another": {[]core.Change{first, changeOf(insert, keyed, none, "", "2x"), changeOf(update, keyed, key, "1a", "2u")}, "the key is there already", nil},
		"update without identity": {[]core.Change{changeOf(insert, bare, none, "", "1x"), changeOf(update, bare, none, "", "1y")}, "neither a key nor a whole old row", nil},
		"old row of another":      {[]core.Change{changeOf(insert, full, none, "", "1x"), changeOf(remove, full, whole, "1y", "")}, "no such row", nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel()
			err := m.apply(&core.Transaction{Changes: c.changes})
			if c.fault != "" {
				require.ErrorContains(t, err, c.fault)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.rows, m.lines(source{oid: 1}))
		})
	}
}

func TestOrderIsJudged(t *testing.T) {
	tx := func(xid uint32, commit, end core.LSN) sinktest.Transaction {
		return sinktest.Transaction{Transaction: core.Transaction{XID: xid, CommitLSN: commit, EndLSN: end}}
	}
	good := []sinktest.Transaction{tx(1, 10, 20), tx(2, 20, 30), tx(3, 35, 40)}
	units := []sinktest.Unit{{Expected: 5, Checkpoint: 20}, {Expected: 20, Checkpoint: 40}}
	require.NoError(t, inOrder(good, units))
	for fault, list := range map[string][]sinktest.Transaction{
		"came twice":  {good[0], tx(1, 20, 30)},
		"end 0/14":    {good[0], tx(2, 12, 20)},
		"commit 0/13": {good[0], tx(2, 19, 30)},
		"commit 0/A":  {tx(1, 10, 10)},
	} {
		require.ErrorContains(t, inOrder(list, units), fault)
	}
	require.ErrorContains(t, inOrder(good, []sinktest.Unit{units[0], {Expected: 20, Checkpoint: 20}}), "checkpoint")
	require.ErrorContains(t, inOrder(good, []sinktest.Unit{units[0], {Expected: 10, Checkpoint: 40}}), "expected")
}

func TestDifferencesAreFound(t *testing.T) {
	require.Empty(t, differences([]string{"a", "b", "b"}, []string{"a", "b", "b"}))
	require.Equal(t, []string{"only at the source: b"}, differences([]string{"a", "b"}, []string{"a", "b", "b"}))
	require.Equal(t, []string{"only at the sink: b"}, differences([]string{"a", "b", "c"}, []string{"a", "c"}))
	require.Equal(t, []string{"only at the sink: a", "only at the source: b"}, differences([]string{"a"}, []string{"b"}))
	require.Equal(t, []string{"only at the source: a"}, differences(nil, []string{"a"}))
	empty, null := "", row{"a": nil}
	require.NotEqual(t, row{"a": &empty}.String(), null.String(), "NULL is not the empty text")
	require.NotEqual(t, row{}.String(), null.String(), "a column that is not there is not NULL")
}

// differencesOf replays a road and compares; for roads whose positions also come from
// messages, which are not in the list of units.
func differencesOf(r *road) (all []string) {
	r.Helper()
	m := newModel()
	for _, tx := range r.sink.Transactions() {
		require.NoError(r, m.apply(&tx.Transaction))
	}
	for _, t := range r.published() {
		all = append(all, differences(m.lines(t), r.lines(t))...)
	}
	return all
}
