package conformance

import (
	"slices"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// chunk is one unit of a snapshot, before it is a request.
type chunk struct {
	shape      *shape
	rows       [][]cell
	run        []byte
	generation uint64
	first      bool
	reset      sinkv1.SnapshotReset
	last       bool
	sweep      bool
	token      []byte
	hasToken   bool
	complete   bool
	lsn        uint64
}

func (c chunk) unit() *sinkv1.SnapshotUnit {
	u := &sinkv1.SnapshotUnit{
		RunId: c.run, Generation: c.generation, FirstForTable: c.first, Reset_: c.reset,
		LastForTable: c.last, Sweep: c.sweep, BackfillComplete: c.complete, SnapshotLsn: c.lsn,
	}
	if c.shape != nil {
		u.Relation = c.shape.relation
	}
	for _, row := range c.rows {
		u.Rows = append(u.Rows, wireRow(row))
	}
	if c.hasToken {
		u.ProgressToken = c.token
		if u.ProgressToken == nil {
			u.ProgressToken = []byte{}
		}
	}
	return u
}

// chunk applies a unit of a snapshot: S-901 to S-905, and S-909 for the log.
func (m *model) chunk(stream string, c chunk) {
	m.generation = max(m.generation, c.generation)
	if c.shape == nil {
		return
	}
	for _, row := range c.rows {
		m.logs[stream] = append(m.logs[stream], snapshotEntry(c, row))
	}
	t := m.table(c.shape)
	if c.first {
		t.rows = slices.DeleteFunc(t.rows, func(r *modelRow) bool {
			return c.reset == sinkv1.SnapshotReset_SNAPSHOT_RESET_ALL || r.snapshot
		})
	}
	for _, cells := range c.rows {
		row := &modelRow{known: map[string]Value{}, snapshot: true, generation: c.generation}
		if len(c.shape.key) > 0 {
			if there := t.take(c.shape, cells); there != nil {
				row.snapshot = there.snapshot
			}
		}
		for i, cell := range cells {
			if cell.letter != letterAbsent {
				row.known[c.shape.columns()[i]] = Value{Null: cell.letter == letterNull, Text: cell.text}
			}
		}
		t.add(row)
	}
	if c.last && c.sweep {
		t.rows = slices.DeleteFunc(t.rows, func(r *modelRow) bool { return r.generation < c.generation })
	}
}

func snapshotEntry(c chunk, row []cell) LogEntry {
	e := LogEntry{
		Op: "snapshot", Schema: c.shape.name().schema, Table: c.shape.name().table,
		Columns: c.shape.columns(), RunID: c.run,
	}
	for _, cell := range row {
		e.Kinds += string(rune(cell.letter))
		e.Values = append(e.Values, Value{Null: cell.letter == letterNull, Text: cell.text})
	}
	return e
}
