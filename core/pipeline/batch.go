package pipeline

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/assembler"
)

// Bytes of a request beside its rows, generously counted.
const (
	requestHeaderMax     = 512
	transactionHeaderMax = 96
)

// batch is consecutive whole transactions on their way into one unit.
type batch struct {
	transactions []core.Transaction
	// marks[i] is the assembler's memory up to and including transaction i.
	marks     []assembler.Mark
	relations map[*core.Relation]struct{}
	size      int // encoded bytes of the request, an upper bound
	changes   int
	shaped    []*core.Relation // that were not seen before
	// shapedTo[i] is how many of them transaction i and those before it have shown.
	shapedTo []int
}

func newBatch() *batch {
	return &batch{relations: map[*core.Relation]struct{}{}, size: requestHeaderMax}
}

func (b *batch) empty() bool { return len(b.transactions) == 0 }

// end is the position that the batch decides.
func (b *batch) end() core.LSN { return b.transactions[len(b.transactions)-1].EndLSN }

// span is how much WAL the batch covers, from the end of its first transaction.
func (b *batch) span() int64 { return int64(b.end() - b.transactions[0].EndLSN) }

func (b *batch) add(tx core.Transaction, mark assembler.Mark) {
	b.size += b.cost(&tx)
	eachRelation(&tx, func(r *core.Relation) { b.relations[r] = struct{}{} })
	b.transactions = append(b.transactions, tx)
	b.marks = append(b.marks, mark)
	b.changes += len(tx.Changes)
}

// cost is what tx would add to the request, its relations included.
func (b *batch) cost(tx *core.Transaction) int {
	cost := transactionHeaderMax + tx.Size
	eachRelation(tx, func(r *core.Relation) {
		if _, known := b.relations[r]; !known {
			cost += r.EncodedMax()
		}
	})
	return cost
}

// split cuts the batch in two halves for a sink that found it too big.
func (b *batch) split() (first, second *batch) {
	half := len(b.transactions) / 2
	first, second = newBatch(), newBatch()
	for i := range b.transactions {
		into := first
		if i >= half {
			into = second
		}
		into.add(b.transactions[i], b.marks[i])
		into.shapes(b.shaped[b.shownBefore(i):b.shapedTo[i]])
	}
	return first, second
}

// shapes notes what the transaction that was added last has shown for the first time.
func (b *batch) shapes(list []*core.Relation) {
	b.shaped = append(b.shaped, list...)
	b.shapedTo = append(b.shapedTo, len(b.shaped))
}

// shown are the relations that the first n transactions have shown for the first time.
func (b *batch) shown(n int) []*core.Relation { return b.shaped[:b.shownBefore(n)] }

func (b *batch) shownBefore(n int) int {
	if n == 0 {
		return 0
	}
	return b.shapedTo[n-1]
}

// reset empties the batch and keeps its memory.
func (b *batch) reset() {
	clear(b.transactions)
	clear(b.relations)
	b.transactions, b.marks = b.transactions[:0], b.marks[:0]
	b.size, b.changes, b.shaped, b.shapedTo = requestHeaderMax, 0, nil, b.shapedTo[:0]
}

// eachRelation calls f for the relations of a transaction; runs of one relation, the
// usual case, call it once.
func eachRelation(tx *core.Transaction, f func(*core.Relation)) {
	var last *core.Relation
	for i := range tx.Changes {
		c := &tx.Changes[i]
		if c.Relation != nil && c.Relation != last {
			last = c.Relation
			f(last)
		}
		if c.Truncate != nil {
			for _, r := range c.Truncate.Relations {
				f(r)
			}
		}
	}
}
