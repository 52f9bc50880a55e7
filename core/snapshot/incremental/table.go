package incremental

import (
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// table is a table of the run with what is not durable of it.
type table struct {
	Member
	status         Status
	earlier        bool // nothing of it was to be copied when the run began
	replace, sweep bool
	suspect        bool
	rows           uint64
	ranges         []Range // that no chunk has
	cutting        *cutting
	cutFailures    int
	sizes          sizes
	repair         map[keyBytes]*wanted
	repairBytes    int

	// waited: the writer wait is over. writers are those it waits for.
	waited, asked bool
	writers       []Writer
	// settled: the wait was over in this epoch, and the table is to be looked at again.
	// away: a chunk did not find it in the publications.
	settled, away bool
	// unsure: the server may have forgotten the table. passed is the end of the WAL behind its
	// writer wait, noted the version of the token that says so.
	unsure   bool
	passed   core.LSN
	noted    uint64
	pause    pause
	rowsNext amount        // of the next chunk
	keysNext amount        // of the next chunk of the repair list
	patience time.Duration // how old a chunk may become
	chunks   int           // open ones of it
	queued   bool
	entries  entries
	seen     shape // the relation as the stream showed it last
	// Of a table without a key: the copy in progress, and what the last one shows.
	copy    *copying
	putOffs int // times that its copy was put off
	shown   Snapshot
	high    core.LSN

	latest *core.Relation // as the catalog showed it last
}

// wanted is a key on the repair list.
type wanted struct {
	key Key
	// version is when it came on the list, for the last time.
	version uint64
	// by is the chunk that is to read it.
	by *chunk
}

// shape is what the run knows of a relation as the stream describes it.
type shape struct {
	relation *core.Relation
	// key is the positions of the key's columns; nil where they are not all there.
	key  []int
	hash uint64
}

func newTable(t Table, set Settings) *table {
	n := &table{
		Member: t.Member, status: t.Status, replace: t.Replace, sweep: t.Sweep, rows: t.Rows,
		ranges: t.Ranges, repair: map[keyBytes]*wanted{}, shown: t.Shown, high: t.High,
		rowsNext: newAmount(set.ChunkRows), keysNext: newAmount(repairChunk), patience: set.ChunkAge,
	}
	if n.status == Pending {
		n.high = 0 // it is what passed was
	}
	for _, k := range t.Repair {
		n.want(k, 0)
	}
	if t.Suspect {
		n.everything()
	}
	return n
}

// everything puts the whole table back to be read. Keys of the list are in it.
func (t *table) everything() {
	t.ranges = Everything()
	t.repair, t.repairBytes = map[keyBytes]*wanted{}, 0
	if t.status == Done {
		t.status = Copying
	}
}

func (t *table) want(k Key, version uint64) {
	b := k.bytes()
	if w := t.repair[b]; w != nil {
		w.version = version
		return
	}
	t.repair[b] = &wanted{key: k, version: version}
	t.repairBytes += len(b)
}

func (t *table) drop(b keyBytes) {
	delete(t.repair, b)
	t.repairBytes -= len(b)
}

// left reports whether a chunk of the table must still be read or delivered.
func (t *table) left() bool {
	return len(t.ranges) > 0 || t.chunks > 0 || len(t.repair) > 0
}

// working: windows may be opened.
func (t *table) working() bool { return t.status == Copying && t.waited }

// unlook: it may be another table now. If it is not, who writes it was streamed since its
// wait in this epoch was over.
func (t *table) unlook() {
	t.settled = t.settled || t.waited
	t.waited, t.writers = false, nil
}

// look learns the shape of a streamed relation and finds the key's columns in it.
func (t *table) look(r *core.Relation) *shape {
	if t.seen.relation == r {
		return &t.seen
	}
	t.seen = shape{relation: r, hash: layout(r), key: t.positions(r)}
	return &t.seen
}

// layout is equal where the rows of two descriptions of a relation have the same columns.
func layout(r *core.Relation) uint64 {
	columns := core.Relation{OID: r.OID, Columns: append([]core.Column(nil), r.Columns...)}
	for i := range columns.Columns {
		columns.Columns[i].Identity = false
	}
	return columns.ShapeHash()
}

func (t *table) positions(r *core.Relation) []int {
	var at []int
	for _, name := range t.Key {
		for i := range r.Columns {
			if r.Columns[i].Name == name {
				at = append(at, i)
			}
		}
	}
	if len(at) != len(t.Key) || r.Identity != t.Identity {
		return nil
	}
	return at
}

// state is the table as a token says it, for the step of own; nil for any other.
func (t *table) state(own *Step, chunks []*chunk) Table {
	s := Table{
		Member: t.Member, Status: t.status, Replace: t.replace, Sweep: t.sweep,
		Suspect: t.suspect, Rows: t.rows, Ranges: append([]Range(nil), t.ranges...), Shown: t.shown, High: t.high,
	}
	if own != nil && own.table == t {
		s.Status, s.Rows = own.status, t.rows+uint64(len(own.rows))
		if own.kind == stepCopy && own.last {
			s.Shown, s.High = *t.copy.shown, t.copy.high
		}
	} else {
		own = nil
	}
	s.Sweep = s.Sweep && s.Status != Done
	if s.Status == Pending {
		s.High = t.passed
	}
	for _, c := range chunks {
		if c.table == t && c.keys == nil && (own == nil || own.chunk != c) {
			s.Ranges = append(s.Ranges, c.span)
		}
	}
	for _, w := range t.repair {
		if own == nil || own.chunk == nil || !own.chunk.repairs(w) {
			s.Repair = append(s.Repair, w.key)
		}
	}
	return s
}
