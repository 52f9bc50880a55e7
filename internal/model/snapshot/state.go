package snapshot

// Bounds of the model.
const (
	logMax  = 3 // transactions
	keysMax = 3
)

// Operations of a source transaction.
const (
	opNone        = iota
	opUpdate      // the TOAST column unchanged, so not streamed
	opUpdateToast // the TOAST column written too
	opMove        // key change from Key to To, the TOAST column unchanged
	opDelete
	opInsert
	opTruncate
)

// operation is one row event. Unstreamed ones were written before the table was published.
type operation struct{ Kind, Key, To, Unstreamed int8 }

type transaction [2]operation

// row at the source or the sink. Plain 0: there is no row. Toast -1: the sink does not know
// the column. Origin is 1 for a row of a snapshot and 2 for one that the stream touched.
// Touched tells that this run or the stream wrote it since the generation was raised.
type row struct{ Plain, Toast, Origin, Touched int8 }

type table [keysMax + 1]row

// What the stream did to a key since a window opened.
const (
	entryNone    = iota
	entryFull    // carried the whole row
	entryPartial // updates only, the TOAST column never carried: merge
	entryDeleted
	entryHole // moved here without the TOAST column: never merge, repair
)

type entry struct{ State, Plain int8 }

// Phases of a chunk.
const (
	idle = iota
	opened
	selected
	buffered
	half      // the first of rows and token is stored
	selected0 // of a mutant: selected, and the window still closed
)

// chunk is a window with what was read in it.
type chunk struct {
	Phase, Opened, High     int8
	Snapshot, Keys, Tainted uint8
	Entries                 [keysMax + 1]entry
}

// state is everything there is.
type state struct {
	Log                                [logMax]transaction
	Length, Flushed, Standby, Replayed int8 // appended; flushed; at the failover standby; at the read standby
	Visible                            uint8
	Open                               transaction // left open across the ALTER PUBLICATION
	Altered, AlteredAt, Stale          int8
	Start, Received, Durable           int8
	// Applied is what a sink without checkpoint has taken in this session, Highest in all.
	Applied, Highest     int8
	RepairStored, Repair uint8 // keys of the repair list, durable and in memory
	Done                 uint8 // chunks
	Cleared, Complete    int8
	Reconnected          int8
	Chunks               [3]chunk // the third repairs
	Sink                 table
	Crashes, Restarts    int8 // left
	FailedOver           int8
}

func has(set uint8, i int8) bool { return set>>uint(i)&1 == 1 }
func bit(i int8) uint8           { return 1 << uint(i) }
func below(n int8) uint8         { return 1<<uint(n) - 1 }
