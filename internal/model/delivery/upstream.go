package delivery

// kind is what the stream carries at a place.
type kind int8

const (
	transaction kind = iota // start is the commit LSN, end the end LSN
	message                 // non-transactional; end is its LSN, the end of its record
	idle                    // a stretch without anything published; end is a keepalive's WAL end
)

// item is one piece of the upstream WAL. Ends are positions, starts never are.
type item struct {
	kind       kind
	start, end int8
}

const items = 5

// messageItem is the message of the usual layout; nobody moves the slot just there.
const messageItem = 2

var (
	usualLayout = [items]item{{transaction, 3, 5}, {transaction, 5, 7}, {message, 7, 9}, {transaction, 9, 11}, {idle, 11, 13}}
	// idleMiddleLayout has the idle stretch where its keepalive equals the next commit.
	idleMiddleLayout = [items]item{{transaction, 3, 5}, {idle, 5, 7}, {transaction, 7, 9}, {message, 9, 11}, {idle, 11, 13}}
)

const (
	// consistentPoint of the slot is the snapshot's hand-off and the first position.
	consistentPoint = 3
	// lastEnd is the position at which everything is settled.
	lastEnd = 13
)

// origin says where a position came from; a mask for the mutants that compare a commit
// LSN with positions of some origins only.
type origin uint8

const (
	fromHandoff origin = 1 << iota
	fromTransaction
	fromMessage
	fromIdle
	fromAnywhere = fromHandoff | fromTransaction | fromMessage | fromIdle
)

func (p *Protocol) originOf(position int8) origin {
	for _, it := range p.layout {
		if it.end == position {
			return fromTransaction << it.kind
		}
	}
	return fromHandoff
}

// position is what an item writes into the checkpoint: its end, whatever it is.
func (p *Protocol) position(i int8) int8 {
	it := p.layout[i]
	if it.kind == transaction && p.has(storeCommitLSN|commitLSNForm) {
		return it.start
	}
	return it.end
}

// sendable reports whether the server sends an item when decoding starts at a position:
// it judges records by their start.
func (p *Protocol) sendable(i, start int8) bool {
	it := p.layout[i]
	if it.kind == idle {
		return it.end > start
	}
	return it.start >= start
}

// settled is the skip rule of sidecar and sink: what ends at or before the position.
func (p *Protocol) settled(i, position int8, atSink bool) bool {
	it := p.layout[i]
	if it.kind == transaction {
		byStart := p.SkipStart&p.originOf(position) != 0 && (atSink || !p.has(skipStartAtSinkOnly))
		if byStart || p.has(commitLSNForm) {
			return it.start <= position
		}
		if p.has(skipStartBelow) {
			return it.start < position
		}
	}
	if p.has(skipEndBelow) {
		return it.end < position
	}
	return it.end <= position
}

// next is the first item that the stream brings and the position does not cover, or
// items when there is none.
func (p *Protocol) next(position, start int8) int8 {
	for i := range int8(items) {
		if !p.settled(i, position, false) && p.sendable(i, start) {
			return i
		}
	}
	return items
}

// firstAbove is the first item with an effect that ends above the position.
func (p *Protocol) firstAbove(position int8) int8 {
	for i := range int8(items) {
		if p.layout[i].end > position && p.layout[i].kind != idle {
			return i
		}
	}
	return items
}
