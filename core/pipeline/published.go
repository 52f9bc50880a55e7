package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

// Published is what the publications stream, as the catalog shows it now and then.
type Published struct {
	// Tables is how many there are, partitions included.
	Tables int
	// Warning is the newest change of membership after which the sink may lack rows;
	// empty when there was none in this run.
	Warning string
}

// membership compares what is published with what was published before. It outlives
// sessions: what changed while there was none is told as well.
type membership struct {
	before map[uint32]wal.PublishedTable
	gone   map[tableName]uint32 // OIDs of tables that left
	// copies: a table that comes is copied, so that no row of it is missing.
	copies bool
}

type tableName struct{ schema, table string }

// look takes what is published now and returns a line for each change that leaves the
// sink without rows, tables in order of their names.
func (m *membership) look(now map[uint32]wal.PublishedTable) (lines []string) {
	before := m.before
	m.before = now
	if before == nil {
		return nil
	}
	if m.gone == nil {
		m.gone = map[tableName]uint32{}
	}
	for _, oid := range sortedByName(before) {
		t := before[oid]
		if _, still := now[oid]; still {
			continue
		}
		m.gone[tableName{t.Schema, t.Name}] = oid
		lines = append(lines, fmt.Sprintf("%q.%q is no longer published: its changes do not reach the sink", t.Schema, t.Name))
	}
	for _, oid := range sortedByName(now) {
		t := now[oid]
		name := tableName{t.Schema, t.Name}
		other, replaces := m.gone[name]
		delete(m.gone, name)
		if _, known := before[oid]; known || m.copies {
			continue
		}
		switch {
		case replaces && other != oid:
			lines = append(lines, fmt.Sprintf("%q.%q is another table now (OID %d, before %d): no message said that the rows of the old one are gone",
				t.Schema, t.Name, oid, other))
		case t.Chosen:
			lines = append(lines, fmt.Sprintf("%q.%q is published now: rows that it held before do not reach the sink", t.Schema, t.Name))
		}
	}
	return lines
}

func sortedByName(tables map[uint32]wal.PublishedTable) []uint32 {
	return slices.SortedFunc(maps.Keys(tables), func(a, b uint32) int {
		x, y := tables[a], tables[b]
		return cmp.Or(cmp.Compare(x.Schema, y.Schema), cmp.Compare(x.Name, y.Name), cmp.Compare(a, b))
	})
}

// lookAtPublications tells changes of membership. The stream itself never says that a
// table has left or come.
func (p *Pipeline) lookAtPublications(ctx context.Context, catalog *wal.Catalog) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	now, err := catalog.Published(ctx, p.options.Source.Publications)
	if err != nil {
		return // asked again at the next turn
	}
	p.members.copies = p.options.Snapshot == checkpoint.SnapshotIncremental
	lines := p.members.look(now)
	for _, line := range lines {
		p.log.Warn("the publication has changed", "what", line)
	}
	p.board.update(func(s *Status) {
		s.Published.Tables = len(now)
		if len(lines) > 0 {
			s.Published.Warning = lines[len(lines)-1]
		}
	})
}
