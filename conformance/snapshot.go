package conformance

import (
	"context"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// resets.
const (
	resetRows = sinkv1.SnapshotReset_SNAPSHOT_RESET_SNAPSHOT_ROWS
	resetAll  = sinkv1.SnapshotReset_SNAPSHOT_RESET_ALL
)

// copying is one run of a snapshot.
type copying struct {
	s          *stream
	run        []byte
	generation uint64
}

// copying begins the next run of a stream.
func (s *stream) copying() *copying {
	s.t.model.generation++
	return &copying{s: s, run: s.t.bytes(sinkv1.IDBytes), generation: s.t.model.generation}
}

// chunk makes a unit of rows.
func (c *copying) chunk(table *shape, rows ...[]any) chunk {
	u := chunk{shape: table, run: c.run, generation: c.generation, lsn: c.s.wal}
	for _, row := range rows {
		u.rows = append(u.rows, cells(row...))
	}
	u.rows = c.s.t.once(table, u.rows)
	return u
}

// first makes the unit of rows that begins a table.
func (c *copying) first(table *shape, reset sinkv1.SnapshotReset, rows ...[]any) chunk {
	u := c.chunk(table, rows...)
	u.first, u.reset = true, reset
	return u
}

// with adds a token.
func (c chunk) with(token []byte) chunk {
	c.token, c.hasToken = token, true
	return c
}

// final marks the last unit of a table.
func (c chunk) final(sweep bool) chunk {
	c.last, c.sweep = true, sweep
	return c
}

// sendChunk sends one unit.
func (s *stream) sendChunk(ctx context.Context, c chunk) error {
	ctx, cancel := s.t.deadline(ctx)
	defer cancel()
	if s.t.session.onlyTwoPhase() {
		gid := s.gid()
		p, err := s.t.link.two.Prepare(ctx, &sinkv1.PrepareRequest{
			Context: s.context(), Gid: gid, Unit: &sinkv1.PrepareRequest_Snapshot{Snapshot: c.unit()},
		})
		if err == nil {
			_, err = s.t.link.two.CommitPrepared(ctx, &sinkv1.CommitPreparedRequest{
				Context: s.context(), Gid: gid, Token: p.GetToken(),
			})
		}
		return err
	}
	_, err := s.t.link.sink.HandleSnapshot(ctx, &sinkv1.HandleSnapshotRequest{
		Context: s.context(), ExpectedCheckpoint: s.durable, Unit: c.unit(),
	})
	return err
}

// put sends units, each of which must be answered OK.
func (s *stream) put(chunks ...chunk) {
	for _, c := range chunks {
		if err := s.sendChunk(s.t.ctx, c); err != nil {
			s.t.failed("HandleSnapshot is refused: %v", err)
		}
		s.t.model.chunk(s.id, c)
	}
}

// complete ends an initial snapshot at the end of the WAL.
func (s *stream) complete(c *copying, tables ...*shape) {
	if err := s.sendComplete(s.t.ctx, c, s.wal, tables...); err != nil {
		s.t.failed("HandleSnapshotComplete is refused: %v", err)
	}
	s.completed()
}

// completed is what a completion does to the model.
func (s *stream) completed() {
	at := s.wal
	s.t.model.positions[s.id] = at
	s.durable = &at
}

func (s *stream) sendComplete(ctx context.Context, c *copying, at uint64, tables ...*shape) error {
	ctx, cancel := s.t.deadline(ctx)
	defer cancel()
	q := &sinkv1.HandleSnapshotCompleteRequest{
		Context: s.context(), ExpectedCheckpoint: s.durable, CheckpointLsn: &at,
		Completion: &sinkv1.SnapshotCompletion{RunId: c.run, Generation: c.generation},
	}
	for _, table := range tables {
		q.Completion.Relations = append(q.Completion.Relations, table.relation)
	}
	r, err := s.t.link.sink.HandleSnapshotComplete(ctx, q)
	if err == nil && s.sinkOwned() && r.GetCheckpointLsn() != at {
		s.t.differs("HandleSnapshotComplete answers another position", lsnText(at), lsnText(r.GetCheckpointLsn()))
	}
	return err
}

// token asks for the token, nil for none.
func (s *stream) token() []byte {
	ctx, cancel := s.t.deadline(s.t.ctx)
	defer cancel()
	r, err := s.t.link.sink.SnapshotProgress(ctx, &sinkv1.SnapshotProgressRequest{StreamId: s.id, Source: s.source})
	if err != nil {
		s.t.failed("SnapshotProgress is refused: %v", err)
	}
	return r.ProgressToken
}

// rows makes rows from to to, each with this name.
func rowsOf(from, to int, name any) [][]any {
	var rows [][]any
	for i := from; i <= to; i++ {
		rows = append(rows, []any{i, name, null})
	}
	return rows
}
