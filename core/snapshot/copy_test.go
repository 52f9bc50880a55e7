package snapshot

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

func TestRowsOfCopy(t *testing.T) {
	for line, want := range map[string][]core.Value{
		"1\tx\n":                {core.Text("1"), core.Text("x")},
		"\\N\t\n":               {core.Null(), core.Text("")},
		"\\\\N\t\\t\\n\\\\\n":   {core.Text(`\N`), core.Text("\t\n\\")},
		"a\\r\\b\\f\\vz\t\\N\n": {core.Text("a\r\b\f\vz"), core.Null()},
	} {
		r := rowReader{columns: 2}
		tuple, _, err := r.read(nil, []byte(line))
		require.NoError(t, err)
		require.Equal(t, core.PackTuple(want...).Packed(), tuple.Packed(), "%q", line)
	}
	for _, line := range []string{"", "1\t2", "1\n", "1\t2\t3\n", "\\x\t2\n", "1\t\\\n", "1\t\\.\n"} {
		r := rowReader{columns: 2}
		_, _, err := r.read(nil, []byte(line))
		halt, ok := core.AsHalt(err)
		require.True(t, ok, "%q", line)
		require.Equal(t, core.HaltMalformedStream, halt.Code)
	}
	none := rowReader{}
	tuple, _, err := none.read(nil, []byte("\n"))
	require.NoError(t, err)
	require.Zero(t, tuple.Len())
}

// FuzzRowOfCopy: any line is a row or an error, and what is a row has as many columns.
func FuzzRowOfCopy(f *testing.F) {
	f.Add([]byte("1\tx\n"), 2)
	f.Add([]byte("\\N\t\\\\\n"), 2)
	f.Fuzz(func(t *testing.T, line []byte, columns int) {
		if columns < 0 || columns > core.ColumnsMax {
			return
		}
		r := rowReader{columns: columns}
		tuple, _, err := r.read(nil, line)
		if err == nil {
			require.Equal(t, columns, tuple.Len())
			_, err = core.ParseTuple(tuple.Packed())
			require.NoError(t, err)
		}
	})
}

func TestPartsCoverTheTable(t *testing.T) {
	table := &Table{Leaves: []Leaf{{OID: 1, Schema: "s", Name: "a", Pages: 25, Ranged: true, Readable: true}, {OID: 2, Schema: "s", Name: "b", Readable: true}}}
	parts := table.Parts(10)
	require.Len(t, parts, 4)
	next := int64(0)
	for _, p := range parts[:3] {
		require.Equal(t, next, p.First)
		next = p.Beyond
	}
	require.Zero(t, next, "the last range has no end: the table may have grown")
	require.Contains(t, parts[1].Copy(), `FROM ONLY "s"."a" WHERE ctid >= '(10,0)'::pg_catalog.tid AND ctid < '(20,0)'::pg_catalog.tid`)
	table.Filter = "a OR b"
	require.True(t, strings.HasSuffix(parts[3].Copy(), `FROM ONLY "s"."b" WHERE (a OR b)) TO STDOUT`), parts[3].Copy())
	require.Len(t, table.Parts(0), 2)
	table.Leaves[1].Readable, table.Partitioned = false, true
	require.Len(t, table.Parts(10), 1)
}
