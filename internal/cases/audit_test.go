package cases_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
)

// audit holds a road that has ended against its source: order, each transaction once,
// positions that only rise, and the replayed model equal to the tables.
func (r *road) audit() {
	r.Helper()
	list := r.sink.Transactions()
	require.NoError(r, inOrder(list, r.sink.Units()))
	require.NotZero(r, r.samples.Load(), "nobody looked at the slot while it ran")
	m := newModel()
	for i := range list {
		require.NoError(r, m.apply(&list[i].Transaction))
	}
	for _, t := range r.published() {
		require.Empty(r, differences(m.lines(t), r.lines(t)), "%s.%s at the sink and at the source", t.schema, t.name)
	}
}

// inOrder looks at identities and positions of all that a sink was given.
func inOrder(list []sinktest.Transaction, units []sinktest.Unit) error {
	xids := map[uint32]bool{}
	for i := range list {
		tx := &list[i]
		switch {
		case xids[tx.XID]:
			return fmt.Errorf("transaction %d came twice", tx.XID)
		case tx.CommitLSN >= tx.EndLSN:
			return fmt.Errorf("commit %s, end %s", tx.CommitLSN, tx.EndLSN)
		case i > 0 && tx.EndLSN <= list[i-1].EndLSN:
			return fmt.Errorf("end %s after %s", tx.EndLSN, list[i-1].EndLSN)
		case i > 0 && tx.CommitLSN < list[i-1].EndLSN:
			return fmt.Errorf("commit %s before %s, where the one before ended", tx.CommitLSN, list[i-1].EndLSN)
		}
		xids[tx.XID] = true
	}
	for i := range units {
		switch {
		case i > 0 && units[i].Checkpoint <= units[i-1].Checkpoint:
			return fmt.Errorf("checkpoint %s after %s", units[i].Checkpoint, units[i-1].Checkpoint)
		case i > 0 && units[i].Expected != units[i-1].Checkpoint:
			return fmt.Errorf("expected %s, the sink stands at %s", units[i].Expected, units[i-1].Checkpoint)
		}
	}
	return nil
}

// source is a published table that exists.
type source struct {
	oid          uint32
	schema, name string
}

func (r *road) published() []source {
	r.Helper()
	names := make([]string, len(r.publications))
	for i, name := range r.publications {
		names[i] = literal(name)
	}
	var list []source
	for _, row := range r.watch.ask(`select distinct c.oid, n.nspname, c.relname from pg_publication_tables p
 join pg_namespace n on n.nspname = p.schemaname join pg_class c on c.relnamespace = n.oid and c.relname = p.tablename
 where p.pubname in (` + strings.Join(names, ",") + `) order by 1`).rows {
		var t source
		_, err := fmt.Sscan(*row[0], &t.oid)
		require.NoError(r, err)
		t.schema, t.name = *row[1], *row[2]
		list = append(list, t)
	}
	require.NotEmpty(r, list)
	return list
}

// lines is the table as Postgres prints it, a line a row with names and values, sorted.
func (r *road) lines(t source) []string {
	r.Helper()
	answer := r.watch.ask("select * from " + quoted(t.schema) + "." + quoted(t.name))
	out := make([]string, len(answer.rows))
	for i, values := range answer.rows {
		now := row{}
		for j, v := range values {
			now[answer.columns[j]] = v
		}
		out[i] = now.String()
	}
	slices.Sort(out)
	return out
}

// lines is the same of the model.
func (m *model) lines(t source) []string {
	var out []string
	if mirror := m.tables[t.oid]; mirror != nil {
		for _, same := range mirror.rows {
			for _, now := range same {
				out = append(out, now.String())
			}
		}
	}
	slices.Sort(out)
	return out
}

func (values row) String() string {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	return fmt.Sprintf("%q: %s", names, line(names, values))
}

// differences lists lines that only one side has, some of them.
func differences(sink, source []string) []string {
	const some = 6
	var out []string
	for i, j := 0, 0; (i < len(sink) || j < len(source)) && len(out) < some; {
		switch {
		case j == len(source) || i < len(sink) && sink[i] < source[j]:
			out = append(out, "only at the sink: "+shorten(sink[i]))
			i++
		case i == len(sink) || sink[i] > source[j]:
			out = append(out, "only at the source: "+shorten(source[j]))
			j++
		default:
			i, j = i+1, j+1
		}
	}
	return out
}
