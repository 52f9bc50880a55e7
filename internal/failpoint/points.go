package failpoint

// Point names a place in the source.
type Point string

// The points, in the order in which a transaction passes them. A new one needs a row in
// declared, and a call site.
const (
	ClaimBefore   Point = "claim.before"
	ClaimAfter    Point = "claim.after"
	ReadChange    Point = "read.change"
	ReadKeepalive Point = "read.keepalive"
	ReadCommit    Point = "read.commit"
	SpillNamed    Point = "spill.named"
	SpillHalf     Point = "spill.half"
	CallBefore    Point = "call.before"
	CallAfter     Point = "call.after"
	LargePart     Point = "large.part"
	StoreBefore   Point = "store.before"
	DeliverAfter  Point = "deliver.after"
	IdleStored    Point = "idle.stored"
	IdleTold      Point = "idle.told"
	StatusBefore  Point = "status.before"
	StatusAfter   Point = "status.after"
	DrainBegin    Point = "drain.begin"
	DrainEnd      Point = "drain.end"
)

// The points of an initial copy.
const (
	SnapshotSlot      Point = "snapshot.slot"
	SnapshotBatch     Point = "snapshot.batch"
	SnapshotTable     Point = "snapshot.table"
	SnapshotCopied    Point = "snapshot.copied"
	SnapshotCompleted Point = "snapshot.completed"
)

// The points of an incremental snapshot.
const (
	ChunkLocked   Point = "chunk.locked"
	ChunkSnapshot Point = "chunk.snapshot"
	ChunkSelected Point = "chunk.selected"
	ChunkMarked   Point = "chunk.marked"
	ChunkBuffered Point = "chunk.buffered"
	ChunkApplied  Point = "chunk.applied"
	TokenStored   Point = "token.stored"
	RepairNoted   Point = "repair.noted"
	TableCleared  Point = "table.cleared"
	TableAttached Point = "table.attached"
)

// The points of the sink that judges us, internal/testsink.
const (
	SinkClaim      Point = "sink.claim"
	SinkCall       Point = "sink.call"
	SinkBegun      Point = "sink.begun"
	SinkRow        Point = "sink.row"
	SinkCheckpoint Point = "sink.checkpoint"
	SinkCommitted  Point = "sink.committed"
)

// Declaration says what a point is for.
type Declaration struct {
	Point Point
	// Room is the folder of its call sites. A room that does not exist yet is not asked
	// for them.
	Room string
	// Meaning is what is true at the point.
	Meaning string
	// Fails is true when the call site takes an error, so that the action error may be
	// armed.
	Fails bool
	// Rows of docs/fault-matrix.md that are hit here.
	Rows []string
}

// Declared lists every point there is.
func Declared() []Declaration { return declared }

var declared = []Declaration{
	{ClaimBefore, pipelineRoom, "the slot is held, the claim is not sent", true, rows{"S12"}},
	{ClaimAfter, pipelineRoom, "the claim is stored, nothing was told to Postgres", true, rows{"S12", "S14"}},
	{ReadChange, pipelineRoom, "one more change of an open transaction was taken from the stream", false, rows{"U1", "U4", "U18"}},
	{ReadKeepalive, pipelineRoom, "a keepalive came inside a transaction", false, rows{"U18"}},
	{ReadCommit, pipelineRoom, "a commit was taken from the stream, its unit is not delivered", false, rows{"U2", "U16"}},
	{SpillNamed, spillRoom, "a spill file was made and still has its name", false, rows{"U8"}},
	{SpillHalf, spillRoom, "a block is half written", false, rows{"U8"}},
	{CallBefore, pipelineRoom, "the sink is to be called with a unit, nothing was sent", true, rows{"S7", "L9", "B4", "B9", "U26"}},
	{CallAfter, pipelineRoom, "the sink said OK to one call; a row of our own store is not written", true, rows{"S5", "L2", "B1", "B2"}},
	{LargePart, pipelineRoom, "the sink took one more piece of a large transaction", false, rows{"U1", "B8"}},
	{StoreBefore, pipelineRoom, "the row of our own store is to be moved, nothing was sent", false, rows{"L2", "L6", "L11", "B2", "U26"}},
	{DeliverAfter, pipelineRoom, "a unit is durable, at the sink or in our store, and the ledger does not know", true, rows{"U25", "S5", "L4", "B4", "B9"}},
	{IdleStored, pipelineRoom, "an idle step is durable, Postgres was not told", false, rows{"U7", "B9"}},
	{IdleTold, pipelineRoom, "an idle step was told to Postgres", false, rows{"U7", "U19", "B9"}},
	{StatusBefore, walRoom, "a higher position is to be told, nothing was written", true, rows{"S5", "S11", "L7"}},
	{StatusAfter, walRoom, "a higher position was told", true, rows{"U5", "U16", "U17"}},
	{DrainBegin, pipelineRoom, "a clean stop was asked for, a unit may be in flight", false, rows{"U20", "B4"}},
	{DrainEnd, pipelineRoom, "nothing is in flight, the last status is not sent", false, rows{"U20", "B4"}},

	{SnapshotSlot, pipelineRoom, "the slot is made and its snapshot exported, nobody has adopted it", false, rows{"P1"}},
	{SnapshotBatch, pipelineRoom, "one more unit of rows was read, it is not sent", false, rows{"P2", "P6", "P7"}},
	{SnapshotTable, pipelineRoom, "the last unit of one more table is durable", false, rows{"P2"}},
	{SnapshotCopied, pipelineRoom, "all tables are durable, the completion is not sent", false, rows{"P2"}},
	{SnapshotCompleted, pipelineRoom, "the consistent point is durable, the stream is not begun", false, rows{"P5", "B9"}},

	{ChunkLocked, chunksRoom, "a window is open and the table locked, the snapshot is not taken", false, rows{"N1"}},
	{ChunkSnapshot, chunksRoom, "the snapshot shows what it must, no row is read", false, rows{"N1"}},
	{ChunkSelected, chunksRoom, "the rows are read, the end of the WAL is not", false, rows{"N1", "N3"}},
	{ChunkMarked, chunksRoom, "the chunk is whole, it is not handed over", false, rows{"N1", "N10"}},
	{ChunkBuffered, pipelineRoom, "the chunk waits for the stream", false, rows{"N2"}},
	{ChunkApplied, pipelineRoom, "the sink said OK to a unit of the run; a row of our own store is not written", true, rows{"N4", "N5", "N7"}},
	{TokenStored, pipelineRoom, "unit and token are durable, the run does not know", false, rows{"N4", "N7"}},
	{RepairNoted, pipelineRoom, "the repair list is durable, the transaction that needs it is not", false, rows{"N10"}},
	{TableCleared, pipelineRoom, "a table is cleared, no window of it was opened", false, rows{"N1"}},
	{TableAttached, pipelineRoom, "the copy of a table without a key is durable, the run does not know", false, rows{"N9"}},

	{SinkClaim, sinkRoom, "a claim arrived, its row is not locked", true, rows{"S12"}},
	{SinkCall, sinkRoom, "a unit arrived, its transaction is not begun", true, rows{"S1", "S6", "S10", "S14", "U24", "L10"}},
	{SinkBegun, sinkRoom, "the stream's row is locked and the epoch checked, nothing is written", true, rows{"S6", "S12"}},
	{SinkRow, sinkRoom, "one more row is written in the open transaction", true, rows{"S1", "B1", "B5"}},
	{SinkCheckpoint, sinkRoom, "rows and checkpoint are written, not committed", true, rows{"S1", "S8"}},
	{SinkCommitted, sinkRoom, "committed, the reply is not sent", true, rows{"S4", "B6", "L1"}},
}

const (
	pipelineRoom = "core/pipeline"
	chunksRoom   = "core/snapshot/chunks"
	spillRoom    = "core/spill"
	walRoom      = "core/wal"
	sinkRoom     = "internal/testsink"
)

type rows = []string
