package badsinks

import (
	"context"
	"errors"
	"io"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// frames is what the two client streams have in common: one transaction, frame by frame.
type frames struct {
	begin     *sinkv1.LargeBegin
	relations []*sinkv1.Relation
	changes   []*sinkv1.Change
	// stored counts the changes that were committed ahead of the commit frame.
	stored int
}

// take takes one frame that is neither begin nor commit.
func (f *frames) take(s *Sink, relation *sinkv1.Relation, schema *sinkv1.SchemaChange, changes *sinkv1.LargeChanges) error {
	switch {
	case f.begin == nil:
		return invalid("a frame before begin")
	case relation != nil:
		f.relations = append(f.relations, relation)
	case schema != nil:
		if s.is(SchemaFrameIsRelation) {
			f.relations = append(f.relations, schema.GetAfter())
		}
	case changes != nil:
		if changes.GetFirstChangeIndex() != uint64(len(f.changes)) && !s.is(NoFrameIndex) {
			return invalid("first_change_index is wrong")
		}
		f.changes = append(f.changes, changes.GetChanges()...)
	case !s.is(IgnoresUnknownFrame):
		return invalid("an unknown frame")
	}
	return nil
}

// HandleLargeTransaction stores one transaction that comes in frames.
func (s *Sink) HandleLargeTransaction(stream sinkv1.SinkService_HandleLargeTransactionServer) error {
	if err := s.missing(sinkv1.Capability_CAPABILITY_LARGE_TRANSACTION); err != nil {
		return err
	}
	var f frames
	for {
		q, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if s.is(CommitsOnHalfClose) && f.begin != nil {
				_, _ = s.large(stream.Context(), &f, &sinkv1.LargeCommit{
					EndLsn: f.begin.GetCommitLsn() + 48, CheckpointLsn: new(f.begin.GetCommitLsn() + 48),
					ChangeCount: uint64(len(f.changes)),
				})
			}
			return invalid("no commit frame")
		}
		if err != nil {
			return err
		}
		switch {
		case q.GetBegin() != nil:
			if f.begin != nil && !s.is(SecondBegin) {
				return invalid("a second begin")
			}
			f.begin = q.GetBegin()
			if err := s.greet(&f); err != nil {
				return err
			}
		case q.GetCommit() != nil:
			if f.begin == nil {
				return invalid("commit before begin")
			}
			counts, err := s.finish(stream, &f, q.GetCommit())
			if err != nil {
				return err
			}
			return stream.SendAndClose(&sinkv1.HandleLargeTransactionResponse{
				CheckpointLsn: q.GetCommit().CheckpointLsn, Counts: counts,
			})
		default:
			had := len(f.changes)
			if err := f.take(s, q.GetRelation(), q.GetSchemaChange(), q.GetChanges()); err != nil {
				return err
			}
			if err := s.early(stream.Context(), &f, had); err != nil {
				return err
			}
		}
	}
}

// greet is the first test of a stream, at begin.
func (s *Sink) greet(f *frames) error {
	t := s.store.begin()
	defer t.end()
	if f.begin.GetContext().GetCheckpointOwner() == sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SIDECAR {
		return s.fence(f.begin.GetContext())
	}
	_, err := s.admit(t, f.begin.GetContext(), s.expects(LargeNoGap, f.begin.ExpectedCheckpoint))
	return err
}

// early applies frames as they come, visible before the commit.
func (s *Sink) early(ctx context.Context, f *frames, had int) error {
	thousand := s.is(LargeThousands) && len(f.changes)/1000 > had/1000
	if !thousand && !s.is(VisibleBeforeCommit) || had == len(f.changes) {
		return nil
	}
	t := s.store.begin()
	defer t.end()
	x := &sinkv1.Transaction{CommitLsn: f.begin.GetCommitLsn(), Changes: f.changes[f.stored:]}
	f.stored = len(f.changes)
	if err := s.apply(ctx, t, f.begin.GetContext().GetStreamId(), f.relations, x, &sinkv1.Counts{}); err != nil {
		return err
	}
	return t.commit()
}

// finish waits for the end of the stream, which must follow the commit frame.
func (s *Sink) finish(stream sinkv1.SinkService_HandleLargeTransactionServer, f *frames, commit *sinkv1.LargeCommit) (*sinkv1.Counts, error) {
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) && !s.is(FrameAfterCommit) {
		if err != nil {
			return nil, err
		}
		return nil, invalid("a frame after commit")
	}
	return s.large(stream.Context(), f, commit)
}

// large is the store transaction of a large transaction: everything is tested again.
func (s *Sink) large(ctx context.Context, f *frames, commit *sinkv1.LargeCommit) (*sinkv1.Counts, error) {
	if commit.GetChangeCount() != uint64(len(f.changes)) && !s.is(NoChangeCount) {
		return nil, invalid("change_count is wrong")
	}
	t := s.store.begin()
	defer t.end()
	c := f.begin.GetContext()
	owned := c.GetCheckpointOwner() == sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SINK
	row := t.stream(c.GetStreamId())
	if owned && !s.is(LargeFencedAtBegin) {
		var err error
		if row, err = s.admit(t, c, s.expects(LargeNoGap, f.begin.ExpectedCheckpoint)); err != nil {
			return nil, err
		}
	}
	counts := &sinkv1.Counts{}
	x := &sinkv1.Transaction{CommitLsn: f.begin.GetCommitLsn(), EndLsn: commit.GetEndLsn(), Changes: s.carried(f.changes[f.stored:], len(f.relations))}
	if s.is(LargeCut) && len(f.changes) > 2000 {
		x.Changes = f.changes[:2000]
	}
	if owned && row.position != nil && x.EndLsn <= *row.position && !s.is(LargeNotSkipped) {
		counts.ReplayedTransactions = new(uint64(1))
		return counts, nil
	}
	if err := s.apply(ctx, t, c.GetStreamId(), f.relations, x, counts); err != nil {
		return nil, storeError(s.leaky(err))
	}
	resume := commit.ResumeState
	if s.is(LargeForgetsResume) {
		resume = nil
	}
	if err := s.advance(t, c, commit.CheckpointLsn, resume); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, storeError(ctx.Err())
	}
	if s.is(LargeTwoCommits) {
		return counts, storeError(t.store.parts(t.writes(isRow), t.writes(isStream)))
	}
	if err := t.commit(); err != nil {
		return nil, storeError(err)
	}
	return counts, nil
}

func isStream(at place) bool { return at.bucket == streamsBucket }
func isRow(at place) bool    { return at.bucket != streamsBucket }
