package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func modelOf(changes ...change) (*model, *shape) {
	s := newShape(1, "s", "t", sinkv1.ReplicaIdentity_REPLICA_IDENTITY_DEFAULT, "id int4 key", "a text", "b text")
	m := newModel()
	for i := range changes {
		changes[i].shape = s
	}
	m.transaction("x", &txn{commit: 10, end: 20, changes: changes})
	return m, s
}

func table(columns []string, rows ...[]any) Table {
	t := Table{Columns: columns}
	for _, row := range rows {
		var values []Value
		for _, c := range cells(row...) {
			values = append(values, Value{Null: c.letter == letterNull, Text: c.text, Unknown: c.letter == letterAbsent})
		}
		t.Rows = append(t.Rows, values)
	}
	return t
}

// TestModelRows has the rules that are easily got wrong, and what a sink may show.
func TestModelRows(t *testing.T) {
	abc := []string{"id", "a", "b"}
	s := newShape(1, "s", "t", sinkv1.ReplicaIdentity_REPLICA_IDENTITY_DEFAULT, "id int4 key", "a text", "b text")
	tests := map[string]struct {
		changes  []change
		may, not []Table
	}{
		"a key change takes unchanged columns from the old key": {
			[]change{insert(s, 1, "x", "old"), insert(s, 2, "y", "new"), rekey(s, []any{1}, 2, "z", kept)},
			[]Table{table(abc, []any{2, "z", "old"})},
			[]Table{table(abc, []any{2, "z", "new"}), table(abc, []any{2, "z", null}), table(abc, []any{2, "z", "old"}, []any{1, "x", "old"})},
		},
		"a row that is not there may be ignored, or stored with a hole": {
			[]change{update(s, 1, "x", kept)},
			[]Table{table(abc), table(abc, []any{1, "x", null}), table(abc, []any{1, "x", gone})},
			[]Table{table(abc, []any{1, null, null}), table(abc, []any{2, "x", null})},
		},
		"NULL is not the empty text, and a column must be there": {
			[]change{insert(s, 1, "", null)},
			[]Table{table(abc, []any{1, "", null}), table([]string{"b", "id", "a"}, []any{null, 1, ""})},
			[]Table{table(abc, []any{1, null, null}), table(abc, []any{1, "", ""}), table(abc[:2], []any{1, ""}), table(abc)},
		},
		"equal rows are counted": {
			[]change{insert(s, 1, "x", "y")},
			[]Table{table(abc, []any{1, "x", "y"})},
			[]Table{table(abc, []any{1, "x", "y"}, []any{1, "x", "y"})},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m, s := modelOf(test.changes...)
			want := m.tables[s.name()]
			for _, have := range test.may {
				require.Nil(t, compareTable(s.name(), []string{"id"}, want, have, true))
			}
			for _, have := range test.not {
				require.NotNil(t, compareTable(s.name(), []string{"id"}, want, have, true))
			}
		})
	}
}

func TestModelSkipsByTheEnd(t *testing.T) {
	m, s := modelOf(insert(nil, 1, "x", "y"))
	again := &txn{commit: 5, end: 20, changes: []change{remove(s, 1)}}
	m.transaction("x", again)
	require.Len(t, m.tables[s.name()].rows, 1)
	require.EqualValues(t, 1, m.counts.replayed)
	m.transaction("x", &txn{commit: 20, end: 21, changes: again.changes})
	require.Empty(t, m.tables[s.name()].rows)
}
