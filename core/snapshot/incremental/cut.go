package incremental

import (
	"slices"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// A large table is cut into ranges of about a chunk each, by keys that a reader finds ahead, so
// that several readers can read it side by side. Ranges partition the keys whatever happens to
// the rows meanwhile: a range that has become larger is cut again where its chunk ends.

const (
	// cutsMost ranges of all tables together are cut ahead, beside one of each: all are in the
	// token.
	cutsMost = 64
	// cutsOfReader are found by one look for each reader.
	cutsOfReader = 2
	// cutFailuresMost looks come to nothing, and the table is read by one reader.
	cutFailuresMost = 3
)

// cutting is a range that is being cut. It stays among the table's ranges meanwhile.
type cutting struct {
	id   uint64
	span Range
	keys int // asked for
}

// is compares bounds as they are printed.
func (s Range) is(other Range) bool {
	return slices.Equal(s.Lo, other.Lo) && slices.Equal(s.Hi, other.Hi)
}

// cuts reports that a table's ranges are cut before they are read.
func (r *Run) cuts(t *table) bool {
	if r.set.Readers < 2 || t.cutFailures >= cutFailuresMost || !t.Extent.Known {
		return false
	}
	if t.Extent.Rows <= 2*int64(r.perChunk(t)) && t.Extent.Bytes <= 2*int64(r.set.ChunkBytes) {
		return false
	}
	all := 0
	for _, other := range r.tables {
		all += len(other.ranges)
	}
	return all <= len(r.tables)+cutsMost
}

// perChunk is how many rows a chunk of the table is likely to have, by count and by the size of
// those that were read. The catalog's numbers are no measure: they count columns that are not
// published and rows that are gone, and are as old as the last analyze.
func (r *Run) perChunk(t *table) int {
	rows := t.rowsNext.next
	if t.sizes.rows > 0 {
		rows = min(rows, r.set.ChunkBytes/(t.sizes.bytes/t.sizes.rows+1))
	}
	return max(rows, 1)
}

// sizes are those of the rows that were read of a table in this session.
type sizes struct{ rows, bytes int }

func (s *sizes) came(rows []core.Tuple) {
	s.rows += len(rows)
	for _, row := range rows {
		s.bytes += len(row.Packed())
	}
}

// cut asks for keys to cut a range by, when there will soon be fewer ranges than readers.
func (r *Run) cut() (Job, bool) {
	for _, t := range r.tables {
		if t.cutting != nil || !t.working() || t.queued || !t.pause.over(r.now) || !r.cuts(t) {
			continue
		}
		at, sized := -1, 0
		for i, span := range t.ranges {
			if span.sized {
				sized++
			} else if at < 0 {
				at = i
			}
		}
		if at < 0 || sized >= r.set.Readers {
			continue
		}
		r.lastID++
		t.cutting = &cutting{id: r.lastID, span: t.ranges[at], keys: cutsOfReader * r.set.Readers}
		return Job{Kind: JobCut, ID: r.lastID, Table: t.Member, Range: t.ranges[at], Rows: r.perChunk(t), Pieces: t.cutting.keys}, true
	}
	return Job{}, false
}

// Cut takes keys to cut a range by, in their order; fewer than were asked for tell that the
// last piece is no larger than the others.
func (r *Run) Cut(id uint64, keys []Key) {
	t := r.cutOf(id)
	if t == nil {
		return
	}
	span, whole := t.cutting.span, len(keys) < t.cutting.keys
	t.cutting, t.cutFailures = nil, 0
	at := slices.IndexFunc(t.ranges, func(s Range) bool { return !s.sized && s.is(span) })
	if at < 0 {
		return
	}
	var pieces []Range
	lo := span.Lo
	for _, k := range keys {
		pieces = append(pieces, Range{Lo: lo, Hi: k, sized: true})
		lo = k
	}
	pieces = append(pieces, Range{Lo: lo, Hi: span.Hi, sized: whole})
	t.ranges = slices.Concat(t.ranges[:at], pieces, t.ranges[at+1:])
}

func (r *Run) cutOf(id uint64) *table {
	for _, t := range r.tables {
		if t.cutting != nil && t.cutting.id == id {
			return t
		}
	}
	return nil
}

// readable is the index of a range that a chunk may read now; -1 for none.
func (r *Run) readable(t *table) int {
	cuts := len(t.ranges) > 0 && r.cuts(t)
	return slices.IndexFunc(t.ranges, func(s Range) bool {
		return s.sized || !cuts && (t.cutting == nil || !s.is(t.cutting.span))
	})
}
