package badsinks

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

const (
	preparedBucket = "prepared"
	markersBucket  = "markers"
)

// prepared is a unit between prepare and commit: the writes it will make.
type prepared struct {
	at     time.Time
	writes []write
}

// twoPhase serves the second service of the same store.
type twoPhase struct {
	sinkv1.UnimplementedTwoPhaseSinkServiceServer
	sink *Sink
}

// wall refuses calls of an epoch below the highest seen.
func (p *twoPhase) wall(c *sinkv1.StreamContext) error {
	p.sink.touch()
	p.sink.fenceMu.Lock()
	defer p.sink.fenceMu.Unlock()
	high := p.sink.opened[c.GetStreamId()]
	if c.GetEpoch() < high && !p.sink.is(TwoPhaseNoFence) {
		return precondition(sinkv1.ErrorReason_ERROR_REASON_FENCED)
	}
	p.sink.opened[c.GetStreamId()] = max(high, c.GetEpoch())
	return nil
}

// Open tells who the store is.
func (p *twoPhase) Open(_ context.Context, q *sinkv1.OpenRequest) (*sinkv1.OpenResponse, error) {
	if err := p.wall(q.GetContext()); err != nil {
		return nil, err
	}
	r := &sinkv1.OpenResponse{
		Identity: &sinkv1.SinkIdentity{SystemIdentifier: "42", Timeline: 1, Database: "reference"},
		Evidence: sinkv1.Evidence_EVIDENCE_MARKER,
		Limits:   &sinkv1.TwoPhaseLimits{MaxPrepared: new(uint32(64))},
	}
	if p.sink.is(OpenEchoes) {
		r.Identity = q.GetExpectedIdentity()
	}
	return r, nil
}

// Prepare stores a unit without effect.
func (p *twoPhase) Prepare(ctx context.Context, q *sinkv1.PrepareRequest) (*sinkv1.PrepareResponse, error) {
	s := p.sink
	if err := p.wall(q.GetContext()); err != nil {
		return nil, err
	}
	t := s.store.begin()
	defer t.end()
	stream, counts := q.GetContext().GetStreamId(), &sinkv1.Counts{}
	var err error
	switch u := q.GetUnit().(type) {
	case *sinkv1.PrepareRequest_Transactions:
		for _, x := range u.Transactions.GetTransactions() {
			if err = s.apply(ctx, t, stream, u.Transactions.GetRelations(), x, counts); err != nil {
				break
			}
		}
	case *sinkv1.PrepareRequest_Message:
		err = s.message(t, stream, u.Message.GetLsn(), 0, u.Message)
	case *sinkv1.PrepareRequest_Snapshot:
		counts, err = s.snapshotUnit(t, stream, u.Snapshot)
	case *sinkv1.PrepareRequest_Completion:
	default:
		if !s.is(EmptyPrepare) {
			err = invalid("no unit")
		}
	}
	if err != nil {
		if s.is(KeepsPartAtPrepare) {
			_ = t.commit()
		}
		return nil, storeError(s.leaky(err))
	}
	return &sinkv1.PrepareResponse{Token: []byte(q.GetGid()), Counts: counts}, p.keep(t, q.GetGid())
}

// keep makes of a transaction's writes a prepared unit.
func (p *twoPhase) keep(t *tx, gid string) error {
	unit := prepared{at: time.Now(), writes: t.writes(nil)}
	if p.sink.is(PrepareVolatile) {
		p.sink.memory[gid] = unit
		return nil
	}
	if !p.sink.is(PrepareVisible) {
		t.puts, t.order = map[place]any{}, nil
	}
	t.put(preparedBucket, gid, unit)
	return storeError(t.commit())
}

// PrepareLarge prepares one transaction that comes in frames.
func (p *twoPhase) PrepareLarge(stream sinkv1.TwoPhaseSinkService_PrepareLargeServer) error {
	s := p.sink
	var f frames
	for {
		q, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return invalid("no commit frame")
		}
		if err != nil {
			return err
		}
		switch {
		case q.GetBegin() != nil:
			if f.begin != nil {
				return invalid("a second begin")
			}
			f.begin = q.GetBegin()
			if err := p.wall(f.begin.GetContext()); err != nil {
				return err
			}
		case q.GetCommit() != nil:
			if f.begin == nil || q.GetCommit().GetChangeCount() != uint64(len(f.changes)) && !s.is(PrepareLargeNoCount) {
				return invalid("change_count is wrong, or no begin")
			}
			t := s.store.begin()
			defer t.end()
			counts := &sinkv1.Counts{}
			x := &sinkv1.Transaction{CommitLsn: f.begin.GetCommitLsn(), EndLsn: q.GetCommit().GetEndLsn(), Changes: f.changes}
			if err := s.apply(stream.Context(), t, f.begin.GetContext().GetStreamId(), f.relations, x, counts); err != nil {
				return storeError(s.leaky(err))
			}
			if err := p.keep(t, q.GetCommit().GetGid()); err != nil {
				return err
			}
			return stream.SendAndClose(&sinkv1.PrepareLargeResponse{Token: []byte(q.GetCommit().GetGid()), Counts: counts})
		default:
			if err := f.take(s, q.GetRelation(), q.GetSchemaChange(), q.GetChanges()); err != nil {
				return err
			}
		}
	}
}

// prepared gives a unit that is prepared.
func (p *twoPhase) prepared(t *tx, gid string) (prepared, bool) {
	if u, ok := p.sink.memory[gid].(prepared); ok {
		return u, true
	}
	u, ok := t.get(preparedBucket, gid).(prepared)
	return u, ok
}

// CommitPrepared makes a prepared unit take effect, together with its marker.
func (p *twoPhase) CommitPrepared(_ context.Context, q *sinkv1.CommitPreparedRequest) (*sinkv1.CommitPreparedResponse, error) {
	if err := p.wall(q.GetContext()); err != nil {
		return nil, err
	}
	t := p.sink.store.begin()
	defer t.end()
	u, ok := p.prepared(t, q.GetGid())
	if !ok {
		if p.sink.is(UnknownIsDone) {
			return &sinkv1.CommitPreparedResponse{}, nil
		}
		return nil, refuse(5, sinkv1.ErrorReason_ERROR_REASON_PREPARED_UNKNOWN)
	}
	for _, w := range u.writes {
		t.put(w.at.bucket, w.at.key, w.value)
	}
	if !p.sink.is(CommitKeepsPrepared) {
		t.put(preparedBucket, q.GetGid(), nil)
		delete(p.sink.memory, q.GetGid())
	}
	if !p.sink.is(NoMarker) {
		t.put(markersBucket, q.GetGid(), true)
	}
	if p.sink.is(CommitInTwoSteps) {
		return &sinkv1.CommitPreparedResponse{}, storeError(p.sink.store.parts(
			t.writes(func(at place) bool { return at.bucket == preparedBucket }),
			t.writes(func(at place) bool { return at.bucket != preparedBucket })))
	}
	return &sinkv1.CommitPreparedResponse{}, storeError(t.commit())
}

// RollbackPrepared forgets a prepared unit.
func (p *twoPhase) RollbackPrepared(_ context.Context, q *sinkv1.RollbackPreparedRequest) (*sinkv1.RollbackPreparedResponse, error) {
	if err := p.wall(q.GetContext()); err != nil {
		return nil, err
	}
	t := p.sink.store.begin()
	defer t.end()
	if _, ok := p.prepared(t, q.GetGid()); !ok {
		return nil, refuse(5, sinkv1.ErrorReason_ERROR_REASON_PREPARED_UNKNOWN)
	}
	if p.sink.is(RollbackDoesNothing) {
		return &sinkv1.RollbackPreparedResponse{}, nil
	}
	t.put(preparedBucket, q.GetGid(), nil)
	delete(p.sink.memory, q.GetGid())
	return &sinkv1.RollbackPreparedResponse{}, storeError(t.commit())
}

// ListPrepared lists every gid.
func (p *twoPhase) ListPrepared(_ context.Context, q *sinkv1.ListPreparedRequest) (*sinkv1.ListPreparedResponse, error) {
	if err := p.wall(q.GetContext()); err != nil {
		return nil, err
	}
	t := p.sink.store.begin()
	defer t.end()
	r := &sinkv1.ListPreparedResponse{}
	if p.sink.is(ListsNothing) {
		return r, nil
	}
	gids := t.keys(preparedBucket)
	for gid, u := range p.sink.memory {
		if _, ok := u.(prepared); ok {
			gids = append(gids, gid)
		}
	}
	slices.Sort(gids)
	for _, gid := range gids {
		u, _ := p.prepared(t, gid)
		r.Prepared = append(r.Prepared, &sinkv1.PreparedTransaction{Gid: gid, Age: durationpb.New(time.Since(u.at))})
	}
	return r, nil
}

// PreparedStatus says what became of a gid, by its marker.
func (p *twoPhase) PreparedStatus(_ context.Context, q *sinkv1.PreparedStatusRequest) (*sinkv1.PreparedStatusResponse, error) {
	if err := p.wall(q.GetContext()); err != nil {
		return nil, err
	}
	t := p.sink.store.begin()
	defer t.end()
	state := sinkv1.PreparedState_PREPARED_STATE_NOT_COMMITTED
	if _, ok := p.prepared(t, q.GetGid()); ok {
		state = sinkv1.PreparedState_PREPARED_STATE_PREPARED
	} else if t.get(markersBucket, q.GetGid()) != nil {
		state = sinkv1.PreparedState_PREPARED_STATE_COMMITTED
	}
	return &sinkv1.PreparedStatusResponse{State: state}, nil
}
