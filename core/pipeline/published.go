package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

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
type membership struct{ before map[uint32]wal.PublishedTable }

// look takes what is published now and returns a line for each change that leaves the
// sink without rows, tables in order of their names.
func (m *membership) look(now map[uint32]wal.PublishedTable) (lines []string) {
	before := m.before
	m.before = now
	if before == nil {
		return nil
	}
	type name struct{ schema, table string }
	present := map[name]uint32{}
	for oid, t := range now {
		present[name{t.Schema, t.Name}] = oid
	}
	for _, oid := range sortedByName(before) {
		t := before[oid]
		if _, still := now[oid]; still {
			continue
		}
		if other, replaced := present[name{t.Schema, t.Name}]; replaced {
			lines = append(lines, fmt.Sprintf("%q.%q is another table now (OID %d, before %d): rows of the old one are gone at the source, and no message said so",
				t.Schema, t.Name, other, oid))
			continue
		}
		lines = append(lines, fmt.Sprintf("%q.%q is no longer published: its changes do not reach the sink", t.Schema, t.Name))
	}
	for _, oid := range sortedByName(now) {
		t := now[oid]
		if _, known := before[oid]; known || !t.Chosen {
			continue
		}
		lines = append(lines, fmt.Sprintf("%q.%q is published now: rows that it held before do not reach the sink", t.Schema, t.Name))
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
