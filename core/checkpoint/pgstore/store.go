package pgstore

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
)

// Store is a checkpoint.Store over one connection, opened when it is needed and again
// after it was lost. Its methods may be called by several goroutines; they take turns.
type Store struct {
	options Options
	turn    chan struct{}

	// Guarded by turn.
	pg          *pgconn.PgConn
	table       string // quoted, with its schema
	tableName   [2]string
	seen        bool // the table has existed
	unpublished bool // it is known not to be in the stream
	used        bool // the connection has served a call
	warned      bool
	closed      bool
}

var _ checkpoint.Store = (*Store)(nil)

// New checks the options and connects to nothing; the first call does. The error is a
// *core.Halt.
func New(o Options) (*Store, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Store{options: o, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s, nil
}

// Close ends the connection. It waits for a call in progress.
func (s *Store) Close() error {
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	s.closed = true
	if s.pg != nil {
		s.drop()
	}
	return nil
}

// use runs f on an open connection, alone and within the time of a call. Errors are
// classified; a connection that is not known to be fine after one is dropped.
func (s *Store) use(ctx context.Context, op string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.deadline())
	defer cancel()
	select {
	case <-s.turn:
	case <-ctx.Done():
		return classify(op, ctx.Err())
	}
	defer func() { s.turn <- struct{}{} }()
	if s.closed {
		return invalid("the store was closed by this side")
	}
	if err := s.open(ctx); err != nil {
		return classify(op, err)
	}
	err := f(ctx)
	s.used = true
	var answered *pgconn.PgError
	if s.pg.IsClosed() || err != nil && !errors.As(err, &answered) && !verdict(err) {
		s.drop()
	}
	if verdict(err) {
		return err
	}
	return classify(op, err)
}

// verdict reports whether err is one of the two answers that are no fault.
func verdict(err error) bool {
	return errors.Is(err, checkpoint.ErrOvertaken) || errors.Is(err, checkpoint.ErrMoved)
}

// Read returns the row of a stream. A connection that had died meanwhile is replaced once:
// reading changes nothing.
func (s *Store) Read(ctx context.Context, streamID string) (r checkpoint.Record, found bool, err error) {
	for range 2 {
		fresh := true
		err = s.use(ctx, "read", func(ctx context.Context) (err error) {
			fresh = !s.used
			r, found, err = s.read(ctx, streamID)
			return err
		})
		var away *checkpoint.UnavailableError
		if fresh || !errors.As(err, &away) || ctx.Err() != nil {
			break
		}
	}
	return r, found, err
}

func (s *Store) read(ctx context.Context, streamID string) (checkpoint.Record, bool, error) {
	var p parameters
	p.text(streamID)
	return s.row(ctx, "SELECT "+readColumns+" FROM "+s.table+" WHERE stream_id = $1", p)
}

// Claim takes the row over, or makes it. One statement writes; where it has matched
// nothing the row tells why.
func (s *Store) Claim(ctx context.Context, c checkpoint.Claiming) (r checkpoint.Record, err error) {
	if err := c.Check(); err != nil {
		return r, err
	}
	err = s.use(ctx, "claim", func(ctx context.Context) (err error) {
		if err := s.refusePublished(ctx, c.Source.SystemIdentifier, c.Source.Database); err != nil {
			return err
		}
		r, err = s.claim(ctx, c)
		return err
	})
	return r, err
}

func (s *Store) claim(ctx context.Context, c checkpoint.Claiming) (checkpoint.Record, error) {
	write := s.takeOver
	if c.Read == 0 {
		write = s.create
	}
	r, written, err := write(ctx, c)
	if err != nil || written {
		return r, err
	}
	r, found, err := s.read(ctx, c.StreamID)
	switch {
	case err != nil:
		return r, err
	case !found:
		return r, checkpoint.ErrOvertaken
	}
	if err := checkpoint.SameSource(r.Source, c.Source); err != nil {
		return r, err
	}
	if !c.Repeats(r) {
		return r, checkpoint.ErrOvertaken
	}
	return r, nil
}

func (s *Store) create(ctx context.Context, c checkpoint.Claiming) (checkpoint.Record, bool, error) {
	fresh := c.Fresh()
	var p parameters
	p.text(c.StreamID, formatVersion, number(fresh.Epoch))
	p.binary(fresh.Lineage[:], fresh.Sender[:])
	p.text(c.Source.SystemIdentifier, c.Source.Database, c.Source.Slot, number(uint64(c.Source.Timeline)), bare(c.SinkName))
	return s.row(ctx, "INSERT INTO "+s.table+` (stream_id, format_version, epoch, lineage, sender_id,
 source_system_identifier, source_database, source_slot, source_timeline, sink_name, updated_at)
 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, pg_catalog.now())
 ON CONFLICT (stream_id) DO NOTHING RETURNING `+readColumns, p)
}

func (s *Store) takeOver(ctx context.Context, c checkpoint.Claiming) (checkpoint.Record, bool, error) {
	var p parameters
	p.text(c.StreamID, number(c.Read), number(c.Read+1))
	p.binary(c.Sender[:])
	p.text(c.Source.SystemIdentifier, c.Source.Database, c.Source.Slot, number(uint64(c.Source.Timeline)), bare(c.SinkName), formatVersion)
	return s.row(ctx, "UPDATE "+s.table+` SET epoch = $3, sender_id = $4, source_slot = $7, source_timeline = $8,
 sink_name = $9, updated_at = pg_catalog.now()
 WHERE stream_id = $1 AND epoch = $2 AND source_system_identifier = $5 AND source_database = $6
 AND format_version = $10 AND unit_gid IS NULL RETURNING `+readColumns, p)
}

// Advance moves the position by compare-and-set.
func (s *Store) Advance(ctx context.Context, m checkpoint.Move) error {
	if err := m.Check(); err != nil {
		return err
	}
	return s.use(ctx, "advance", func(ctx context.Context) error {
		var p parameters
		p.text(m.StreamID, number(m.Epoch))
		p.binary(m.Sender[:])
		p.lsn(m.From)
		p.lsn(m.To)
		p.binary(m.ResumeState, m.Progress)
		before := sha256.Sum256(m.Before)
		p.binary(before[:])
		r, moved, err := s.row(ctx, "UPDATE "+s.table+` SET pos = $5, base = CASE WHEN pos IS DISTINCT FROM $5 THEN pos ELSE base END,
 updated_at = pg_catalog.now(), resume_state = COALESCE($6, resume_state), progress = COALESCE($7, progress)
 WHERE ($7::bytea IS NULL OR pg_catalog.sha256(COALESCE(progress, ''::bytea)) = $8) AND stream_id = $1 AND epoch = $2 AND sender_id = $3 AND pos IS NOT DISTINCT FROM $4
 AND format_version = `+formatVersion+` AND unit_gid IS NULL RETURNING `+movedColumns, p)
		switch {
		case err != nil:
			return err
		case !moved:
			return checkpoint.ErrMoved
		case r.Position != m.To:
			return invalid("the row was to stand at %s and stands at %s: does a trigger change it?", m.To, r.Position)
		}
		return nil
	})
}
