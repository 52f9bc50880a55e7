package conformance

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// prepareLarge prepares one transaction in frames; edit changes the commit frame, nil
// leaves it out.
func (s *stream) prepareLarge(gid string, tx *txn, edit func(*sinkv1.PrepareLargeCommit) *sinkv1.PrepareLargeCommit) ([]byte, error) {
	ctx, cancel := s.t.deadline(s.t.ctx)
	defer cancel()
	start := time.Now()
	stream, err := s.t.link.two.PrepareLarge(ctx)
	if err != nil {
		return nil, ended("PrepareLarge", start, err, nil, s.t.seen)
	}
	for _, f := range s.large(tx, 1) {
		q := &sinkv1.PrepareLargeRequest{}
		switch {
		case f.GetBegin() != nil:
			q.Frame = &sinkv1.PrepareLargeRequest_Begin{Begin: f.GetBegin()}
			f.GetBegin().ExpectedCheckpoint = nil
		case f.GetRelation() != nil:
			q.Frame = &sinkv1.PrepareLargeRequest_Relation{Relation: f.GetRelation()}
		case f.GetChanges() != nil:
			q.Frame = &sinkv1.PrepareLargeRequest_Changes{Changes: f.GetChanges()}
		default:
			commit := edit(&sinkv1.PrepareLargeCommit{
				EndLsn: tx.end, CheckpointLsn: &tx.end, ChangeCount: f.GetCommit().GetChangeCount(), Gid: gid,
			})
			if commit == nil {
				continue
			}
			q.Frame = &sinkv1.PrepareLargeRequest_Commit{Commit: commit}
		}
		if stream.Send(q) != nil {
			break
		}
	}
	r, err := stream.CloseAndRecv()
	return r.GetToken(), ended("PrepareLarge", start, err, stream, s.t.seen)
}

func tpcLarge(t *Trial) {
	table, s := t.basic(), t.twoPhaseStream()
	tx := s.tx(insert(table, 1, "a", null), insert(table, 2, "b", null))
	gid := s.gid()
	_, err := s.prepareLarge(gid, tx, func(c *sinkv1.PrepareLargeCommit) *sinkv1.PrepareLargeCommit {
		c.ChangeCount++
		return c
	})
	t.mustRefuse("PrepareLarge with a wrong change_count", err, codes.InvalidArgument, "")
	_, err = s.prepareLarge(gid, tx, func(*sinkv1.PrepareLargeCommit) *sinkv1.PrepareLargeCommit { return nil })
	if err == nil {
		t.failed("PrepareLarge without a commit frame is answered OK")
	}
	if s.lists(gid) {
		t.failed("a broken stream is listed as prepared")
	}
	token, err := s.prepareLarge(gid, tx, func(c *sinkv1.PrepareLargeCommit) *sinkv1.PrepareLargeCommit { return c })
	if err != nil {
		t.failed("PrepareLarge is refused: %v", err)
	}
	t.stillSame("after PrepareLarge, before the commit")
	s.committed(gid, token, tx)
	t.stillSame("after the commit of a large unit")
}

func tpcCrash(t *Trial) {
	t.crash("prepare", func() *scene {
		table, s := t.basic(), t.twoPhaseStream()
		gid, tx := s.gid(), s.tx(insert(table, 1, "a", null), insert(table, 2, "b", null))
		return &scene{
			stream: s,
			act:    func(ctx context.Context) error { _, err := s.prepare(ctx, gid, tx); return err },
			done:   func() {},
			redo: func() {
				if !s.lists(gid) {
					gid = s.gid()
					s.prepared(gid, tx)
				}
				s.committed(gid, []byte(gid), tx)
				t.stillSame("after the unit was committed behind a crash of Prepare")
			},
		}
	})
	t.crash("commit of a prepared unit", func() *scene {
		table, s := t.basic(), t.twoPhaseStream()
		gid, tx := s.gid(), s.tx(insert(table, 1, "a", null), insert(table, 2, "b", null))
		token := s.prepared(gid, tx)
		return &scene{
			stream: s,
			act:    func(ctx context.Context) error { return s.commitPrepared(ctx, gid, token) },
			done:   func() { t.model.force(s.id, tx) },
			state: func() string {
				if s.lists(gid) {
					return "prepared"
				}
				return "decided"
			},
			stateBefore: "prepared", stateAfter: "decided",
			redo: func() { t.repeated("CommitPrepared", s.commitPrepared(t.ctx, gid, token)) },
		}
	})
}
