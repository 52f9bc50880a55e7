package incremental

import (
	"slices"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Status is where the copy of a table stands, as far as that is durable.
type Status uint8

// The statuses.
const (
	// Pending: nothing of the table was delivered.
	Pending Status = iota + 1
	// Copying: the table was cleared at the sink; ranges or keys are left.
	Copying
	// Done: the table is copied, and only the stream changes it.
	Done
	// Gone: the table was dropped, or taken out of the publications.
	Gone
	// Cancelled by the operator: what was copied stays.
	Cancelled
	statusEnd
)

// String is the word in status and logs.
func (s Status) String() string {
	switch s {
	case Pending:
		return "pending"
	case Copying:
		return "copying"
	case Done:
		return "done"
	case Gone:
		return "gone"
	case Cancelled:
		return "cancelled"
	}
	return "unknown"
}

// Finished reports that nothing is left to do for a table.
func (s Status) Finished() bool { return s >= Done }

// Kind is what began a run.
type Kind uint8

// The kinds.
const (
	// KindInitial copies what the publications had when the stream began.
	KindInitial Kind = iota + 1
	// KindAdded copies tables that came later.
	KindAdded
	// KindAgain copies tables that were copied before.
	KindAgain
	// KindRepair completes single rows.
	KindRepair
	// KindBefore is a copy under an exported snapshot, before the stream. Its token says that
	// one was begun and nothing else: whether it is complete the stream's position says.
	KindBefore
	kindEnd
)

// Key is the values of the key columns as Postgres prints them, in the order of the index.
type Key []string

// Range is the keys above Lo up to and including Hi; nil is no bound. Only the server
// compares keys.
type Range struct {
	Lo, Hi Key
	// sized ranges have about as many rows as a chunk, for all that is known.
	sized bool
}

// Member is a table of the publications, as the catalog shows it.
type Member struct {
	OID          uint32
	Schema, Name string
	// Key is the names of the columns by which the stream names a row; none for a table
	// without a key. KeyTypes are their type OIDs, KeyCollations their collations, each with
	// its version: together the order that ranges are cut by.
	Key           []string
	KeyTypes      []uint32
	KeyCollations []string
	// Identity is the replica identity.
	Identity core.ReplicaIdentity
	// Alone: the table has no partitions below it, and is locked without its children by
	// inheritance, which are tables of their own.
	Alone bool
	// Filtered tables have a row filter: an update can bring a row into it.
	Filtered bool
	// Extent is for people, and in no token.
	Extent Extent
}

// Extent is how large a table is, as the catalog had it when it was looked at: its rows by the
// planner's estimate, -1 where there is none, and its bytes on the source's disk.
type Extent struct {
	Known       bool
	Rows, Bytes int64
}

// String is schema and name for people.
func (m Member) String() string { return m.Schema + "." + m.Name }

// Same reports that ranges and keys of one are those of the other: the table, the columns of
// its key, and the order that they are sorted in.
func (m Member) Same(other Member) bool {
	return m.OID == other.OID && m.Schema == other.Schema && m.Name == other.Name && m.Identity == other.Identity &&
		slices.Equal(m.Key, other.Key) && slices.Equal(m.KeyTypes, other.KeyTypes) && slices.Equal(m.KeyCollations, other.KeyCollations)
}

// Table is what a token says of a table.
type Table struct {
	Member
	Status Status
	// Replace empties the table at the sink before it is copied; otherwise Sweep removes
	// at the end what this run and the stream have not touched.
	Replace, Sweep bool
	// Suspect: a transaction that may have made holes could be stored, and its keys may
	// not be on the list. Whoever begins from such a token copies all ranges again.
	Suspect bool
	Ranges  []Range
	Repair  []Key
	// Shown and High belong to a table without a key whose copy is whole: what it shows,
	// and where the WAL ended behind it.
	Shown Snapshot
	High  core.LSN
	// Rows counts what was delivered.
	Rows uint64
	// Earlier: it was copied before the run began, as far as this session knows. No token
	// has it.
	Earlier bool
}

// Source is where the rows are from. A token of another source is refused.
type Source struct {
	SystemIdentifier string
	Timeline         uint32
	Database, Slot   string
}

// State is what a token holds: a run as far as it is durable.
type State struct {
	RunID      [16]byte
	Generation uint64
	Kind       Kind
	Source     Source
	// Floor is the position at which the stream began, told to the sink; 0 until known.
	Floor core.LSN
	// Listed tells that Tables was filled: a run is armed before its slot exists and
	// looks at the publications when the stream has begun.
	Listed   bool
	Paused   bool
	Tables   []Table
	Complete bool
	// Forgot: tables that are gone were left out of Tables. A table that is new may have the name
	// of one, whose rows the sink has still.
	Forgot bool
}

// Whole reports that nothing is left to copy or to repair: whoever streams without the run
// misses no row of it.
func (s *State) Whole() bool {
	for _, t := range s.Tables {
		if !t.Status.Finished() || t.Suspect {
			return false
		}
	}
	return s.Complete
}

// BeforeStream reports that the token is of a copy before the stream, which nobody goes on
// with. Once the stream has a position, it says no more than that a generation was used.
func (s *State) BeforeStream() bool { return s.Kind == KindBefore }

// Everything is the range of a whole table.
func Everything() []Range { return []Range{{}} }
