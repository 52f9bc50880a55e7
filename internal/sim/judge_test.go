package sim

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// The judges. All are called with the world's mutex held, at the moment at which
// something becomes irrevocable.

// judgeStatus: Postgres is told no position that is not durable (I1), none that ends
// nowhere, and none by a sidecar that is over (I8).
func (w *world) judgeStatus(from *walsender, flush core.LSN) {
	switch {
	case flush > w.durable && !w.foreign(flush):
		w.fail("I1: the server was told %s, durable is %s", flush, w.durable)
	case flush > w.wal.end:
		w.fail("the server was told %s, its WAL ends at %s", flush, w.wal.end)
	}
	if old := core.LSN(from.flush.Load()); flush < old {
		w.fail("I3: the server was told %s after %s", flush, old)
	}
}

// foreign reports whether the slot itself was there: what was read from it may be
// repeated before the first position is ours.
func (w *world) foreign(flush core.LSN) bool { return flush <= w.server.slot.confirmed }

// judgeClaim: epochs of the stream only rise, whoever claims.
func (w *world) judgeClaim(epoch uint64, sender [16]byte) {
	w.note("claimed: epoch %d by %x", epoch, sender[:3])
	w.claims++
	w.lastClaim = sender
}

// judgeBase: the first position is the slot's, and rows from there on are ours.
func (w *world) judgeBase(at core.LSN) {
	if at != w.server.slot.base {
		w.fail("the first position is %s, the slot was made at %s", at, w.server.slot.base)
	}
	w.base = at
}

// judgePosition: the owner of the checkpoint moves to a position only when nothing that
// was published and ends at or before it is missing.
func (w *world) judgePosition(applied, position core.LSN) {
	switch {
	case !w.wal.through(applied, position):
		missing := w.wal.successor(applied)
		w.fail("LOSS: position %s is stored, what ends at %s was never applied", position, missing.end)
	case position > w.wal.end:
		w.fail("position %s is stored, the WAL ends at %s", position, w.wal.end)
	}
}

// judgeOwnedEffect: at a sink with a checkpoint every effect follows the one before it.
func (w *world) judgeOwnedEffect(row *stored, end core.LSN, by [16]byte) {
	if !w.plan.unfenced && by != row.sender {
		w.fail("%s took effect by an overtaken sidecar", end)
		return
	}
	next := w.wal.successor(row.last)
	if next == nil || next.end != end {
		w.fail("I4: %s took effect after %s, due was %s", end, row.last, endOf(next))
		return
	}
	w.effect(row, next, by)
}

func endOf(r *record) string {
	if r == nil {
		return "nothing"
	}
	return r.end.String()
}

// judgeLibEffect: at a sink without one, effects run forward by one, repeat the last, or
// begin again right above the sidecar's row; never at or below it.
func (w *world) judgeLibEffect(row *stored, end core.LSN, by [16]byte) {
	position := w.rows.row.Position
	next, again := w.wal.successor(row.last), w.wal.successor(position)
	switch {
	case end <= position:
		w.fail("SETTLED AGAIN: %s took effect, the row stands at %s", end, position)
		return
	case next != nil && next.end == end, end == row.last, again != nil && again.end == end:
	default:
		w.fail("I4: %s took effect after %s, due was %s, or %s above the row", end, row.last, endOf(next), endOf(again))
		return
	}
	if end <= row.highest {
		row.repeats++
		w.judgeRepeats(row)
	}
	w.effect(row, w.wal.ending(end), by)
}

// judgeRepeats: a fault costs at most what one write of the row covers.
func (w *world) judgeRepeats(row *stored) {
	if bound := (w.faults + w.claims) * max(w.plan.storeBatch, 1); row.repeats > bound && !w.restored {
		w.fail("%d repeats after %d faults, bound is %d", row.repeats, w.faults, bound)
	}
}

// effect is a transaction or message that is in the sink's store now.
func (w *world) effect(row *stored, r *record, by [16]byte) {
	row.last, row.highest = r.end, max(row.highest, r.end)
	row.effects++
	rows := w.wal.visible(r)
	for i := range rows {
		w.judgeShape(row, &rows[i], by)
	}
}

// judgeShape: a sink that is told new shapes knows each before the first row in it.
func (w *world) judgeShape(kept *stored, r *row, by [16]byte) {
	if r.op == core.OpMessage {
		return
	}
	before, known := kept.shapes[r.table]
	remembers := w.plan.resume || w.plan.lib || kept.by[r.table] == by // what was kept, or this process itself
	if known && before < r.shape && w.plan.tellShapes && remembers && kept.told[r.table] < r.shape {
		w.fail("I7: a row of table %d in shape %d, told was %d", r.table, r.shape, kept.told[r.table])
	}
	kept.by[r.table] = by
	kept.shapes[r.table] = max(before, r.shape)
}

// flowMax bounds what a sidecar may hold of the stream: two reads of the socket, three
// units (in flight, sealed, open) or the pieces of a large one, and what lies in the
// network.
func (p *plan) flowMax() int {
	const reads, slack = 2 * 256 << 10, 4*room + 64<<10
	return reads + slack + 3*p.limits.Resolved().PreferredBytes
}

// judgeFlow: what was sent and is not durable stays under the named limits (I9).
func (w *world) judgeFlow(f *flow) {
	w.mu.Lock()
	defer w.mu.Unlock()
	settled := 0
	for len(f.marks) > 0 && f.marks[0].end <= w.durable {
		settled = f.marks[0].total
		f.marks = f.marks[1:]
	}
	f.settled = max(f.settled, settled)
	if held := f.total - f.settled; held > w.plan.flowMax() {
		w.fail("I9: the sidecar holds %d bytes, bound is %d", held, w.plan.flowMax())
	}
}

// judgeContent: a transaction that is sent is one of the source, whole.
func (w *world) judgeContent(tx *core.Transaction) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.wal.ending(tx.EndLSN)
	if r == nil || r.kind != commit || r.start != tx.CommitLSN || r.xid != tx.XID || r.at.UnixMicro() != tx.CommitTime.UnixMicro() {
		w.fail("I4: transaction %d from %s to %s is none of the source's", tx.XID, tx.CommitLSN, tx.EndLSN)
		return
	}
	rows := w.wal.visible(r)
	if len(rows) != len(tx.Changes) {
		w.fail("I4: transaction to %s has %d changes, %d were committed", tx.EndLSN, len(tx.Changes), len(rows))
		return
	}
	for i := range rows {
		if what := w.wal.differs(&rows[i], &tx.Changes[i]); what != "" {
			w.fail("transaction to %s, change %d: %s", tx.EndLSN, i, what)
		}
	}
}

// differs says in what a delivered change is not the row of the source.
func (l *walLog) differs(r *row, c *core.Change) string {
	t := &l.tables[r.table]
	relation := c.Relation
	switch {
	case c.Op != r.op:
		return "operation " + c.Op.String() + ", not " + r.op.String()
	case r.op == core.OpMessage:
		if string(c.Message.Prefix) != r.id || string(c.Message.Content) != r.text || !c.Message.Transactional {
			return "another message"
		}
		return ""
	case r.op == core.OpTruncate:
		if len(c.Truncate.Relations) != 1 || c.Truncate.Cascade != r.cascade {
			return "another truncate"
		}
		relation = c.Truncate.Relations[0]
	}
	names := columns(r.shape)
	if relation == nil || relation.OID != t.oid || relation.Name != t.name || !slices.EqualFunc(relation.Columns, names, func(c core.Column, name string) bool { return c.Name == name }) {
		return "I7: the relation is not described as it was"
	}
	switch r.op {
	case core.OpDelete:
		return valuesDiffer(c.Old, []string{r.id}, 2+r.shape)
	case core.OpInsert, core.OpUpdate:
		return valuesDiffer(c.New, []string{r.id, r.text}, 2+r.shape)
	}
	return ""
}

func valuesDiffer(t core.Tuple, want []string, columns int) string {
	if t.Len() != columns {
		return "a row of " + strconv.Itoa(t.Len()) + " columns, not " + strconv.Itoa(columns)
	}
	for i, v := range t.Values() {
		if i < len(want) && !bytes.Equal(v.Text, []byte(want[i])) {
			return "another value in column " + strconv.Itoa(i)
		}
	}
	return ""
}
