package incremental

import (
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Bounds.
const (
	// receivedMax transactions may be unproven: received, and not yet shown by a snapshot.
	receivedMax = 1 << 16
	// entriesBytesMax of what the stream did to one relation are kept for its windows.
	entriesBytesMax = 16 << 20
	// repairMax keys, or repairBytesMax, and all ranges of the table are read again.
	repairMax      = 10_000
	repairBytesMax = 256 << 10
	repairChunk    = 500 // keys of one repair chunk
	rowsMin        = 16
)

// Settings are fixed for a session.
type Settings struct {
	// ChunkRows and ChunkBytes bound what one chunk reads; the first row is taken whatever
	// its size. Open bounds the chunks that are read or wait at one time.
	ChunkRows, ChunkBytes, Open int
	// Readers is how many read side by side; with more than one large tables are cut ahead.
	Readers int
	// Standby: the source is one. What it streams is visible there, so no transaction has
	// to be proven; and who writes a table is not known.
	Standby bool
	// Forgets: the server may forget a table that is added to a publication until the stream
	// begins anew. From is where this stream began.
	Forgets bool
	From    core.LSN
	// ChunkAge is how long the window of a chunk may be open before it is given up.
	ChunkAge time.Duration
	// MaxHold is how long the stream waits for the copy of a table without a key before that
	// is put off; 0 has no bound.
	MaxHold time.Duration
	// Repairs: no table is copied. Rows are read again that the sink may hold without a
	// column, since a change was delivered to it twice.
	Repairs bool
}

// Defaults of Settings.
const (
	ChunkRowsDefault  = 2000
	ChunkBytesDefault = 1 << 20
	OpenDefault       = 4
	ChunkAgeDefault   = time.Minute
)

func (s Settings) withDefaults() Settings {
	if s.ChunkRows <= 0 {
		s.ChunkRows = ChunkRowsDefault
	}
	if s.ChunkBytes <= 0 {
		s.ChunkBytes = ChunkBytesDefault
	}
	if s.Open <= 0 {
		s.Open = OpenDefault
	}
	if s.ChunkAge <= 0 {
		s.ChunkAge = ChunkAgeDefault
	}
	return s
}

// Run is one run in one session. It begins from the token that is durable.
type Run struct {
	set    Settings
	state  State // without Tables
	tables []*table
	byOID  map[uint32]*table
	now    time.Time

	frontier core.LSN
	// stored is a position up to which the stream never comes again.
	stored core.LSN
	// epoch rises whenever all windows are given up within the session.
	epoch      uint64
	unproven   []uint32
	unprovenIn map[uint32]struct{}
	torn       bool // a transaction is being taken in pieces

	chunks []*chunk // open ones, in the order of their opening
	lastID uint64

	// version counts additions to repair lists; covered is the version that steps which
	// were taken will make durable.
	version, covered uint64
	durable          uint64 // the version of the newest token that was stored
	step             *Step  // taken and not stored; notes aside

	looked          bool // at the publications, in this session
	listing, relist bool
	listID          uint64 // of the question for the tables, while listing
	listPause       pause
	behind          bool
	unkeyed         int  // tables without a key
	grown           bool // since it was last seen that the tables fit
	hold            hold
	counts          Counts
}

// Counts only rise.
type Counts struct{ Chunks, Discarded, Rows, Merged, Dropped, Holes, PutOff uint64 }

// New goes on with a run at what is durable of it.
func New(state State, set Settings, now time.Time) *Run {
	set = set.withDefaults()
	r := &Run{
		set: set, state: state, now: now, epoch: 1, frontier: set.From, stored: set.From,
		byOID: map[uint32]*table{}, unprovenIn: map[uint32]struct{}{},
	}
	r.state.Tables = nil
	for _, t := range state.Tables {
		n := newTable(t, set)
		n.earlier = state.Kind != KindInitial && n.status.Finished()
		r.kept(n, t.High)
		r.put(n)
	}
	r.state.Complete = state.Complete && !r.unfinished()
	r.relist = set.Repairs && state.Listed // tables may have come
	return r
}

func (r *Run) put(t *table) {
	r.tables = append(r.tables, t)
	r.byOID[t.OID] = t
	r.grown = true
	r.countUnkeyed()
}

func (r *Run) countUnkeyed() {
	r.unkeyed = 0
	for _, t := range r.tables {
		if !t.keyed() {
			r.unkeyed++
		}
	}
}

// At tells the time, before the other calls of a turn.
func (r *Run) At(now time.Time) { r.now = now }

// Counts returns the session's counters.
func (r *Run) Counts() Counts { return r.counts }

// Active reports whether anything is left to do.
func (r *Run) Active() bool { return !r.state.Paused && !r.state.Complete }

// Behind tells that the stream is behind: no window is opened until it has caught up.
func (r *Run) Behind(behind bool) { r.behind = behind }

// Frontier takes a position up to which every commit has come out of the stream.
func (r *Run) Frontier(at core.LSN) { r.frontier = max(r.frontier, at) }

// Durable takes a position up to which all is durable, so that no later session begins before it.
func (r *Run) Durable(at core.LSN) { r.stored = max(r.stored, at) }

// Began takes the number of a transaction whose changes are told in pieces from now on,
// before it is known where it ends.
func (r *Run) Began(xid uint32) {
	r.torn = true
	r.received(xid)
}

// Committed takes a transaction, all of whose changes were told.
func (r *Run) Committed(xid uint32, end core.LSN) {
	r.torn = false
	r.received(xid)
	r.Frontier(end)
}

// received remembers a transaction until a snapshot has shown it. When there are too many,
// they are forgotten.
func (r *Run) received(xid uint32) {
	if _, known := r.unprovenIn[xid]; known || r.set.Standby || !r.state.Listed || !r.Active() {
		return
	}
	if len(r.unproven) >= receivedMax {
		r.forget()
	}
	r.unproven = append(r.unproven, xid)
	r.unprovenIn[xid] = struct{}{}
}

// again gives up all that is being read.
func (r *Run) again() {
	for _, t := range r.tables {
		r.abandon(t)
	}
	r.forget()
}

// forget gives up all windows, and every table waits for its writers again: a transaction that
// is received and not visible holds its locks still. The copy of a table without a key goes on
// once its snapshot is known, which shows all that was received before: what came since is
// told by the snapshot alone. On a busy source no such copy would come to its end otherwise.
func (r *Run) forget() {
	r.epoch++
	r.unproven = nil
	clear(r.unprovenIn)
	for _, t := range r.tables {
		t.settled = false
		if t.copy != nil && t.copy.shown != nil {
			continue
		}
		r.giveUp(t)
		t.waited, t.asked, t.writers = false, false, nil
	}
}

// giveUp discards the chunks of a table. One that is sent already is in the order of the
// stream.
func (r *Run) giveUp(t *table) {
	r.abandon(t)
	t.cutting, t.settled, t.away = nil, false, false
	for _, c := range append([]*chunk(nil), r.chunks...) {
		if c.table == t && c.phase != chunkTaken {
			r.discard(c)
		}
	}
}

// activate goes on after the run was complete: what was received meanwhile was not
// remembered. The caller says in the state what kind of a run it is now.
func (r *Run) activate() {
	if r.state.Complete {
		r.state.Complete = false
		for _, t := range r.tables {
			t.earlier = true
		}
		r.again()
	}
}

// Doubt is asked for before a transaction is sent in pieces, whose holes are not known yet:
// the step to send ahead of it, if there must be one. A start from its token reads all
// ranges again; again is as in Change. Doubtless takes the word that the transaction is durable.
func (r *Run) Doubt(again bool) *Step {
	doubtful := false
	for _, t := range r.tables {
		t.suspect = t.keyed() && (t.status == Copying || t.status == Done && (t.Filtered || again))
		doubtful = doubtful || t.suspect
	}
	if !doubtful {
		return nil
	}
	r.repairs()
	return r.Note()
}

// Doubtless ends what Doubt began: the next token has the list that is true.
func (r *Run) Doubtless() {
	for _, t := range r.tables {
		if t.suspect {
			t.suspect = false
			r.version++
		}
	}
}

// Known reports that the run has tables.
func (r *Run) Known() bool { return len(r.tables) > 0 }

// Tables is what is durable of each table, in the order in which they became known.
func (r *Run) Tables() []Table {
	var all []Table
	for _, t := range r.tables {
		all = append(all, Table{Member: t.Member, Status: t.status, Rows: t.rows, Earlier: t.earlier && t.status.Finished()})
	}
	return all
}

// Waits says what the run waits for that somebody else holds: the table, and who wrote it.
func (r *Run) Waits() (table string, writers []Writer) {
	for _, t := range r.tables {
		if !t.status.Finished() && !t.waited && len(t.writers) > 0 {
			return t.String(), t.writers
		}
	}
	return "", nil
}

// proved forgets what a snapshot shows.
func (r *Run) proved(s *Snapshot) {
	kept := r.unproven[:0]
	for _, xid := range r.unproven {
		if s.Visible(xid) {
			delete(r.unprovenIn, xid)
			continue
		}
		kept = append(kept, xid)
	}
	r.unproven = kept
}

// encode is the token for a step.
func (r *Run) encode(own *Step) State {
	s := r.state
	if own.kind == stepComplete {
		s.Complete = true
	}
	for _, t := range r.tables {
		s.Tables = append(s.Tables, t.state(own, r.chunks))
	}
	return s
}
