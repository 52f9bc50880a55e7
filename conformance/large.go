package conformance

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

type frame = sinkv1.HandleLargeTransactionRequest

func largeBegin(c *sinkv1.StreamContext, expected *uint64, t *txn) *frame {
	return &frame{Frame: &sinkv1.HandleLargeTransactionRequest_Begin{Begin: &sinkv1.LargeBegin{
		Context: c, ExpectedCheckpoint: expected, Xid: t.xid, CommitLsn: t.commit,
		CommitTime: timestamppb.New(sourceClock),
	}}}
}

func largeRelation(r *sinkv1.Relation) *frame {
	return &frame{Frame: &sinkv1.HandleLargeTransactionRequest_Relation{Relation: r}}
}

func largeChanges(first int, changes []*sinkv1.Change) *frame {
	return &frame{Frame: &sinkv1.HandleLargeTransactionRequest_Changes{
		Changes: &sinkv1.LargeChanges{FirstChangeIndex: uint64(first), Changes: changes},
	}}
}

func largeCommit(t *txn, count int) *frame {
	return &frame{Frame: &sinkv1.HandleLargeTransactionRequest_Commit{Commit: &sinkv1.LargeCommit{
		EndLsn: t.end, CheckpointLsn: &t.end, ChangeCount: uint64(count),
	}}}
}

// large makes the frames of a transaction, per changes each.
func (s *stream) large(t *txn, per int) []*frame {
	frames := []*frame{largeBegin(s.context(), s.durable, t)}
	var rels relations
	var changes []*sinkv1.Change
	for _, c := range t.changes {
		changes = append(changes, rels.change(c))
	}
	for _, r := range rels.list {
		frames = append(frames, largeRelation(r))
	}
	for first := 0; first < len(changes); first += per {
		frames = append(frames, largeChanges(first, changes[first:min(first+per, len(changes))]))
	}
	return append(frames, largeCommit(t, len(changes)))
}

// framesChanges is how many changes a frame of a request has: some need several frames.
const framesChanges = 50

// frames are a request of one transaction as a stream.
func (r *request) frames() []*frame {
	t := r.transactions[0]
	frames := []*frame{{Frame: &sinkv1.HandleLargeTransactionRequest_Begin{Begin: &sinkv1.LargeBegin{
		Context: r.context, ExpectedCheckpoint: r.expected, Xid: t.GetXid(), CommitLsn: t.GetCommitLsn(), CommitTime: t.GetCommitTime(),
	}}}}
	for _, relation := range r.relations {
		frames = append(frames, largeRelation(relation))
	}
	changes := t.GetChanges()
	for first := 0; first < len(changes); first += framesChanges {
		frames = append(frames, largeChanges(first, changes[first:min(first+framesChanges, len(changes))]))
	}
	return append(frames, &frame{Frame: &sinkv1.HandleLargeTransactionRequest_Commit{Commit: &sinkv1.LargeCommit{
		EndLsn: t.GetEndLsn(), CheckpointLsn: r.checkpoint, ChangeCount: uint64(len(changes)), ResumeState: r.resume,
	}}})
}

// frames sends frames and closes the stream.
func (t *Trial) frames(ctx context.Context, frames ...*frame) error {
	_, err := t.sendFrames(ctx, nil, frames...)
	return err
}

// sendFrames sends frames, calls between before the last, and closes the stream.
func (t *Trial) sendFrames(ctx context.Context, between func(), frames ...*frame) (*outcome, error) {
	ctx, cancel := t.deadline(ctx)
	defer cancel()
	start := time.Now()
	stream, err := t.link.sink.HandleLargeTransaction(ctx)
	if err != nil {
		return nil, ended("HandleLargeTransaction", start, err, stream, t.seen)
	}
	for i, f := range frames {
		if between != nil && i == len(frames)-1 {
			between()
			if ctx.Err() != nil {
				break // a frame that is sent now may still go out before the end does
			}
		}
		if err := stream.Send(f); err != nil { // the answer says why
			break
		}
	}
	out, err := stream.CloseAndRecv()
	seen := func(a *answer) {
		a.Position = out.GetCheckpointLsn()
		t.seen(a)
	}
	if err := ended("HandleLargeTransaction", start, err, stream, seen); err != nil {
		return nil, err
	}
	return &outcome{checkpoint: out.CheckpointLsn, counts: out.GetCounts()}, nil
}

// deliverLarge sends one transaction in frames, which must be answered OK.
func (s *stream) deliverLarge(t *txn, per int) {
	before := s.t.model.counts
	u := &unit{txs: []*txn{t}, checkpoint: t.end, called: "HandleLargeTransaction"}
	out, err := s.t.sendFrames(s.t.ctx, nil, s.large(t, per)...)
	if err != nil {
		s.t.failed("HandleLargeTransaction is refused: %v", err)
	}
	s.accept(u, out, before)
}

// refusedLarge sends frames that must be refused.
func (s *stream) refusedLarge(code codes.Code, reason string, frames ...*frame) {
	_, err := s.t.sendFrames(s.t.ctx, nil, frames...)
	s.t.mustRefuse("HandleLargeTransaction", err, code, reason)
}

// unfinished sends thousands of changes and no commit frame: half-closed, and cancelled. A
// reader must see nothing of them, while they are on the way and after.
func (s *stream) unfinished(table *shape) {
	t, name := s.t, table.name()
	var changes []change
	for i := range 3500 {
		changes = append(changes, insert(table, -1-i, "never committed"))
	}
	tx := s.tx(changes...)
	frames := s.large(tx, 500)
	seen := 0
	look := func() {
		pause(t.ctx, 50)
		if have, err := t.session.o.Probe.ReadTable(t.ctx, name.schema, name.table); err == nil && !t.session.log() {
			seen = max(seen, len(have.Rows))
		}
	}
	_, err := t.sendFrames(t.ctx, look, frames[:len(frames)-1]...)
	t.mustRefuse("HandleLargeTransaction without a commit frame", err, codes.InvalidArgument, "")
	t.verify("after thousands of changes without a commit frame")
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	_, _ = t.sendFrames(ctx, func() { look(); cancel() }, s.large(tx, 500)...)
	if seen > 0 {
		t.failed("a reader saw %d rows of a transaction in frames before its commit frame", seen)
	}
	s.claim()
	if s.durable != nil && *s.durable >= tx.end {
		t.failed("a cancelled transaction without its commit frame moved the position")
	}
	t.verify("after thousands of changes that were cancelled before their commit frame")
}
