package conformance

import (
	"context"
	"fmt"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// road is the call that carries a unit.
type road int

const (
	// roadAny alternates between the calls that the sink has.
	roadAny road = iota
	roadTransaction
	roadBatch
	// roadPrepared is Prepare and CommitPrepared.
	roadPrepared
	// roadLarge is HandleLargeTransaction.
	roadLarge
)

// calls are the names of the roads.
var calls = [...]string{"", "HandleTransaction", "HandleBatch", "Prepare", "HandleLargeTransaction"}

// roads are all calls that can carry one transaction of this stream.
func (s *stream) roads() []road {
	if s.t.session.onlyTwoPhase() {
		return []road{roadPrepared}
	}
	var roads []road
	if s.t.has(sinkv1.Capability_CAPABILITY_TRANSACTION) {
		roads = append(roads, roadTransaction)
	}
	if s.t.has(sinkv1.Capability_CAPABILITY_BATCH) && s.owner != sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SIDECAR {
		roads = append(roads, roadBatch)
	}
	if s.t.has(sinkv1.Capability_CAPABILITY_LARGE_TRANSACTION) {
		roads = append(roads, roadLarge)
	}
	return roads
}

// byEach does something once by each road: a sink may have written the work of its calls
// once for each of them.
func (s *stream) byEach(do func(r road)) {
	for _, r := range s.roads() {
		s.by = r
		do(r)
	}
	s.by = roadAny
}

// unit is what one call stores. The zero of checkpoint leaves the field out.
type unit struct {
	txs        []*txn
	checkpoint uint64
	expected   *uint64
	resume     []byte
	road       road
	link       *link
	// edit changes the request before it is sent, in ways that no sidecar would.
	edit func(*request)
	// uncounted: nobody knows what this attempt changes.
	uncounted bool
	// called is the call that carried it, once sent.
	called string
}

// request is the parts that HandleTransaction and HandleBatch have in common.
type request struct {
	context      *sinkv1.StreamContext
	expected     *uint64
	checkpoint   *uint64
	relations    []*sinkv1.Relation
	transactions []*sinkv1.Transaction
	resume       []byte
}

// outcome is what an OK said.
type outcome struct {
	checkpoint *uint64
	counts     *sinkv1.Counts
}

// unit makes the unit of these transactions, as the next one of the stream.
func (s *stream) unit(txs ...*txn) *unit {
	u := &unit{txs: txs, expected: s.durable}
	if len(txs) > 0 {
		u.checkpoint = txs[len(txs)-1].end
	}
	return u
}

// idle makes an idle step to the end of the WAL, which first grows.
func (s *stream) idle() *unit {
	s.wal += 64
	return &unit{checkpoint: s.wal, expected: s.durable}
}

// pick chooses the call for a unit, and names it.
func (s *stream) pick(u *unit) road {
	single := s.t.has(sinkv1.Capability_CAPABILITY_TRANSACTION)
	batch := s.t.has(sinkv1.Capability_CAPABILITY_BATCH) && s.owner != sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SIDECAR
	r := u.road
	if r == roadAny && len(u.txs) == 1 {
		r = s.by
	}
	switch {
	case s.t.session.onlyTwoPhase():
		r = roadPrepared
	case r != roadAny:
	case len(u.txs) > 1 || !single:
		r = roadBatch
	case !batch:
		r = roadTransaction
	default: // both have to be right
		s.sent++
		r = roadTransaction + road(s.sent%2)
	}
	u.called = calls[r]
	return r
}

// build makes the request of a unit.
func (s *stream) build(u *unit) *request {
	r := &request{context: s.context(), expected: u.expected, resume: u.resume}
	if u.checkpoint != 0 {
		r.checkpoint = &u.checkpoint
	}
	var rels relations
	for _, t := range u.txs {
		r.transactions = append(r.transactions, rels.transaction(t))
	}
	r.relations = rels.list
	if u.edit != nil {
		u.edit(r)
	}
	return r
}

// send sends a unit once and changes nothing here. It may be called from any goroutine
// when the request was built before, see post.
func (s *stream) send(ctx context.Context, u *unit) (*outcome, error) {
	r := s.pick(u)
	return s.post(ctx, u, r, s.build(u))
}

// post sends a request that was built.
func (s *stream) post(ctx context.Context, u *unit, r road, q *request) (*outcome, error) {
	if r == roadPrepared {
		return s.sendPrepared(ctx, u, q)
	}
	ctx, cancel := s.t.deadline(ctx)
	defer cancel()
	if r == roadLarge {
		return s.t.sendFrames(ctx, nil, q.frames()...)
	}
	l := u.link
	if l == nil {
		l = s.t.link
	}
	if r == roadBatch {
		a, err := l.sink.HandleBatch(ctx, &sinkv1.HandleBatchRequest{
			Context: q.context, ExpectedCheckpoint: q.expected, CheckpointLsn: q.checkpoint,
			Relations: q.relations, Transactions: q.transactions, ResumeState: q.resume,
		})
		return outcomeOf(a, err)
	}
	one := &sinkv1.HandleTransactionRequest{
		Context: q.context, ExpectedCheckpoint: q.expected, CheckpointLsn: q.checkpoint,
		Relations: q.relations, ResumeState: q.resume,
	}
	switch len(q.transactions) {
	case 0:
	case 1:
		one.Transaction = q.transactions[0]
	default:
		return nil, fmt.Errorf("%w: %d transactions in HandleTransaction", errMissing, len(q.transactions))
	}
	a, err := l.sink.HandleTransaction(ctx, one)
	return outcomeOf(a, err)
}

// counted is what all writing answers have in common.
type counted interface {
	comparable
	GetCounts() *sinkv1.Counts
}

func outcomeOf[A counted](a A, err error) (*outcome, error) {
	if err != nil {
		return nil, err
	}
	out := &outcome{counts: a.GetCounts()}
	switch a := any(a).(type) {
	case *sinkv1.HandleTransactionResponse:
		out.checkpoint = a.CheckpointLsn
	case *sinkv1.HandleBatchResponse:
		out.checkpoint = a.CheckpointLsn
	case *sinkv1.HandleLargeTransactionResponse:
		out.checkpoint = a.CheckpointLsn
	case *sinkv1.HandleMessageResponse:
		out.checkpoint = a.CheckpointLsn
	case *sinkv1.HandleSnapshotCompleteResponse:
		out.checkpoint = a.CheckpointLsn
	}
	return out, nil
}

// gid names the next prepared unit of a stream.
func (s *stream) gid() string {
	s.gids++
	return fmt.Sprintf("rp1:%s:%d:%d", s.id, s.epoch, s.gids)
}

// sendPrepared carries a unit to a sink that has two-phase delivery alone.
func (s *stream) sendPrepared(ctx context.Context, u *unit, q *request) (*outcome, error) {
	ctx, cancel := s.t.deadline(ctx)
	defer cancel()
	l := u.link
	if l == nil {
		l = s.t.link
	}
	gid := s.gid()
	p, err := l.two.Prepare(ctx, &sinkv1.PrepareRequest{
		Context: q.context, Gid: gid, CheckpointLsn: q.checkpoint,
		Unit: &sinkv1.PrepareRequest_Transactions{
			Transactions: &sinkv1.TransactionsUnit{Relations: q.relations, Transactions: q.transactions},
		},
	})
	if err != nil {
		return nil, err
	}
	_, err = l.two.CommitPrepared(ctx, &sinkv1.CommitPreparedRequest{
		Context: s.context(), Gid: gid, Token: p.GetToken(),
	})
	return &outcome{checkpoint: q.checkpoint, counts: p.GetCounts()}, err
}
