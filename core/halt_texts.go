package core

// HaltText explains one halt code: to the operator at the terminal (explain CODE) and
// in docs/halts.md, both made from this table.
type HaltText struct {
	Code HaltCode
	Exit int
	// Happened, Means and Do are whole sentences.
	Happened, Means, Do string
}

// Explain returns the text of a code.
func Explain(code HaltCode) (HaltText, bool) {
	for _, t := range HaltTexts() {
		if t.Code == code {
			return t, true
		}
	}
	return HaltText{}, false
}

// HaltTexts lists every code with its text, grouped as the codes are.
func HaltTexts() []HaltText {
	var all []HaltText
	all = append(all, startTexts...)
	all = append(all, sourceTexts...)
	all = append(all, slotTexts...)
	all = append(all, streamTexts...)
	all = append(all, sinkTexts...)
	return append(all, internalTexts...)
}

var startTexts = []HaltText{
	{HaltConfigInvalid, ExitUsage,
		"The configuration has an unknown key, a value of the wrong kind, or two settings that exclude each other.",
		"Nothing was started and nothing was touched.",
		"Run `replicant-sidecar config lint FILE`: it lists every fault with its line."},
	{HaltInvalidIdentifier, ExitUsage,
		"A slot name does not match [a-z0-9_]{1,63}, or a publication name is empty or longer than 63 bytes.",
		"Postgres would refuse the name or silently cut it short.",
		"Choose a slot name of lower-case letters, digits and underscores."},
	{HaltInvalidSink, ExitUsage,
		"The sink does not advertise a call that the chosen mode needs.",
		"Without it a transaction and its checkpoint cannot be stored together, so nothing was started.",
		"Implement and advertise the missing call (GetCapabilities), or choose another delivery mode."},
	{HaltBatchUnsupported, ExitUsage,
		"delivery.mode is batch, but the sink does not advertise BATCH.",
		"Nothing was started.",
		"Implement HandleBatch and advertise BATCH, or set delivery.mode to auto or transaction."},
	{HaltMessagesUnsupported, ExitUsage,
		"messages is on, but the sink does not advertise MESSAGE.",
		"Logical messages would have nowhere to go.",
		"Implement HandleMessage, or switch messages off."},
	{HaltSnapshotUnsupported, ExitUsage,
		"A snapshot is asked for, but the sink does not advertise the calls it needs.",
		"Existing rows could not be copied safely.",
		"Implement HandleSnapshot and what belongs to it, or run with --go-forward-only."},
	{HaltTwoPhaseUnsupported, ExitUsage,
		"Two-phase delivery is asked for, but the sink or its database cannot prepare transactions.",
		"Nothing was started.",
		"Use a sink that advertises TWO_PHASE, or another delivery mode."},
	{HaltFencingRequired, ExitUsage,
		"The chosen mode or command needs a sink that fences overtaken writers, and this one does not.",
		"One late call could write an old row over a newer one.",
		"Use a sink that advertises the fencing, or accept the risk with --accept-unfenced where that is offered."},
	{HaltGoForwardRequired, ExitUsage,
		"The sink is a state mirror with an empty checkpoint, and no snapshot was asked for.",
		"Rows that exist today would never reach the sink; it would hold a part of each table without saying so.",
		"Copy the tables first (snapshot), or say --go-forward-only if only new changes matter."},
	{HaltConflictingStartMode, ExitUsage,
		"Two settings ask for different beginnings, such as --go-forward-only together with a snapshot.",
		"Nothing was started.",
		"Keep one of them."},
}

var sourceTexts = []HaltText{
	{HaltWALLevel, ExitHalted,
		"The server runs with a wal_level below logical.",
		"It does not write what logical decoding needs.",
		"ALTER SYSTEM SET wal_level = 'logical'; then restart Postgres. Managed services have a parameter for it."},
	{HaltServerUnsupported, ExitHalted,
		"The server is older than PostgreSQL 14, or is not PostgreSQL.",
		"Its logical replication differs in ways this program was not tested with.",
		"Upgrade the source."},
	{HaltSourceRights, ExitHalted,
		"Postgres refused the role: wrong password, no REPLICATION attribute, or no right on the database.",
		"The stream cannot be read with this role.",
		"ALTER ROLE name REPLICATION; grant CONNECT, and check pg_hba.conf. Managed services have a role to grant, such as rds_replication."},
	{HaltSourcePooler, ExitHalted,
		"What answers at the source address is a connection pooler, which does not speak the replication protocol.",
		"A pooler may hand a session to another backend at any moment; a slot needs one session of its own.",
		"Point source at the database server itself."},
	{HaltSourceRefused, ExitHalted,
		"Postgres refused a command for a reason that a retry will not change; its SQLSTATE is shown.",
		"The stream did not start or was ended by the server.",
		"Look the SQLSTATE up in the server's log, mend the cause and start again."},
	{HaltPublicationMissing, ExitHalted,
		"A configured publication does not exist, or the server left it out of the stream.",
		"Postgres 18 would go on and stream the rest without a word; older servers fail at the first row.",
		"Create the publication before the slot. A publication created later does not cover WAL that is already written."},
	{HaltSlotsExhausted, ExitHalted,
		"The server has no free replication slot or walsender.",
		"The slot could not be created or read.",
		"Drop slots nobody needs, or raise max_replication_slots and max_wal_senders and restart Postgres."},
}

var slotTexts = []HaltText{
	{HaltSlotPlugin, ExitHalted,
		"The slot exists, but belongs to another output plugin or is a physical slot.",
		"Its content cannot be decoded by this program, and it is somebody's.",
		"Choose another slot name."},
	{HaltSlotDatabase, ExitHalted,
		"The slot exists in another database of the same server.",
		"A logical slot streams one database only.",
		"Choose another slot name, or connect to the slot's database."},
	{HaltSlotTwoPhase, ExitHalted,
		"The slot was made with two_phase on.",
		"It would stream rows at PREPARE, before anybody knows whether they commit.",
		"Use a slot without two_phase."},
	{HaltSlotInvalidated, ExitHalted,
		"Postgres has invalidated the slot: its WAL was removed, or it was idle for too long, or it conflicts with recovery.",
		"Changes between the checkpoint and now can no longer be streamed. Nothing was dropped by this program.",
		"Make a new slot and copy the tables again. Raise max_slot_wal_keep_size so that it lasts through outages."},
	{HaltSlotMissing, ExitHalted,
		"The sink has a checkpoint, but the slot it belongs to is gone.",
		"Changes since the checkpoint may be lost; a new slot would hide that.",
		"Find out who dropped the slot. Then copy the tables again, or store a new base deliberately."},
	{HaltSlotAhead, ExitHalted,
		"The slot's confirmed position is above the sink's checkpoint.",
		"Somebody else moved the slot, or the sink went back (a restored backup). Changes in between are gone from the slot.",
		"Copy the tables again. If the sink was restored on purpose, restore one that is not older than the slot."},
	{HaltSourceBehind, ExitHalted,
		"The sink's checkpoint is above the end of the source's WAL.",
		"The source was restored or failed over without its newest part; the sink holds transactions it does not have.",
		"Compare both by hand. Postgres would accept the start and skip new rows silently, so this program does not try."},
	{HaltTimelineChanged, ExitHalted,
		"The source runs on another timeline than the checkpoint was made on.",
		"After a promotion, positions of the old and the new timeline may mean different rows.",
		"Make sure that nothing was lost in the promotion, then start once with --accept-timeline N."},
	{HaltSourceMismatch, ExitHalted,
		"The sink's stream belongs to another database cluster or database.",
		"Mixing two sources in one stream would corrupt both.",
		"Point the sidecar at the right source, or give this source a stream id of its own."},
	{HaltCheckpointMissing, ExitHalted,
		"The slot exists, but the sink has no checkpoint for it.",
		"The sink was replaced or emptied, or the slot is somebody else's. Starting would leave a hole.",
		"Bring the sink's store back; or start once with --adopt-slot to take the slot's own position as the beginning."},
	{HaltCheckpointUnreadable, ExitHalted,
		"The sink refused to tell its checkpoint.",
		"Unknown is never taken for empty: no stream is started on a guess.",
		"Mend the sink's store and start again."},
	{HaltSnapshotIncomplete, ExitHalted,
		"A snapshot was begun and never completed.",
		"The sink holds a part of the tables.",
		"Start with --snapshot-redo to drop the unfinished snapshot's own slot and copy again."},
}

var streamTexts = []HaltText{
	{HaltMalformedStream, ExitHalted,
		"A message of the stream does not follow the protocol: too short, too long, or with bytes left over.",
		"Guessing could deliver a wrong value, so nothing after it was delivered or confirmed.",
		"Check for a proxy that alters the stream. Otherwise report it with the server's exact version."},
	{HaltUnsupportedMessage, ExitHalted,
		"The stream holds a message of a kind that this configuration does not read.",
		"Skipping it might skip changes.",
		"Check the slot's options (two_phase, streaming); upgrade the sidecar if the server is newer."},
	{HaltBadFraming, ExitHalted,
		"Messages came in an order that the protocol does not allow, such as a row outside a transaction.",
		"The transaction's borders are uncertain, so nothing after it was delivered or confirmed.",
		"Restart once. If it comes again, report it with the server's exact version."},
	{HaltUnknownRelation, ExitHalted,
		"A row belongs to a table that the stream has not described.",
		"Its columns cannot be named.",
		"Restart once: the server describes every table anew. If it comes again, report it."},
	{HaltSchemaDestructive, ExitHalted,
		"A table changed its shape so that stored rows no longer fit, and the sink does not take schema changes.",
		"All rows in the old shape were delivered; none in the new one.",
		"Adapt the sink's tables to the new shape, then start again."},
	{HaltSchemaRefused, ExitHalted,
		"The sink refused a change of a table's shape.",
		"All rows in the old shape were delivered; none in the new one.",
		"Adapt the sink until it accepts the change, then start again."},
	{HaltValueTooLarge, ExitHalted,
		"One row is larger than the largest request that the sink accepts.",
		"A row cannot be split; skipping it would lose it.",
		"Raise max_request_bytes at the sink (and its gRPC receive limit), or take the column out of the publication."},
	{HaltTransactionTooLarge, ExitHalted,
		"A transaction is larger than the largest request, and the sink does not take large transactions.",
		"A transaction is never cut: the sink would see a part of it.",
		"Implement HandleLargeTransaction, or raise max_request_bytes."},
}

var sinkTexts = []HaltText{
	{HaltSinkContract, ExitHalted,
		"The sink answered something that the contract does not allow, such as another checkpoint than the one it was given.",
		"Its word cannot be trusted, so nothing was confirmed to Postgres.",
		"Run `replicant-sidecar conformance` against the sink."},
	{HaltSinkRejected, ExitHalted,
		"The sink refused a unit of work for good.",
		"Nothing after it was delivered; the slot keeps the WAL.",
		"Read the sink's own log, mend the cause and start again."},
	{HaltSinkFailed, ExitHalted,
		"The sink failed on the same unit three times in a row.",
		"It may be one row it cannot handle, or a defect. Nothing after it was delivered.",
		"Read the sink's own log, mend the cause and start again."},
	{HaltSinkUnknown, ExitHalted,
		"The same unit ended without an answer five times in a row (deadline, cut connection).",
		"It may be too slow for the deadline. Nothing is lost: the sink was asked for its checkpoint each time.",
		"Look at the sink's load and its max_call_duration, then start again."},
	{HaltSinkReplaced, ExitHalted,
		"Another store answers at the sink's address than the one this run began with.",
		"Going on would spread one stream over two stores.",
		"Find out which store is right, then start again."},
	{HaltSinkUnauthorized, ExitHalted,
		"The sink refused our credentials for ten minutes.",
		"Nothing was delivered in that time; the slot keeps the WAL.",
		"Renew the credentials and start again."},
	{HaltCapabilityLost, ExitHalted,
		"The sink came back under another name or kind, or without a capability that is in use.",
		"It is probably another program or an older version.",
		"Deploy the right sink and start again."},
	{HaltIdentityRejected, ExitHalted,
		"The sink does not want to read from this source.",
		"Nothing was read or claimed.",
		"Check that source and sink belong together."},
	{HaltOriginRejected, ExitHalted,
		"The sink does not accept the position at which the stream would begin.",
		"It would leave a gap in the sink's log.",
		"Fill the gap or accept it at the sink, then start again."},
	{HaltValueUnrepresentable, ExitHalted,
		"The sink cannot store a value without changing it.",
		"It said so instead of rounding or cutting it; nothing after it was delivered.",
		"Widen the column at the sink, or take it out of the publication."},
	{HaltFenced, ExitFenced,
		"Another sidecar has taken this stream over.",
		"This one must not write any more; the other one goes on from the same checkpoint.",
		"Nothing, if that was meant: a restarted process becomes the standby."},
}

var internalTexts = []HaltText{
	{HaltInvariant, ExitInternal,
		"The sidecar found its own bookkeeping broken, such as a confirmed position above the durable one.",
		"It stopped before anything could be confirmed on that ground.",
		"This is a defect: report it with the line that was printed."},
	{HaltPanic, ExitInternal,
		"A part of the sidecar panicked.",
		"Nothing was confirmed that was not durable; a restart goes on from the checkpoint.",
		"This is a defect: report it with the stack that was printed."},
}
