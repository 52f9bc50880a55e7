package wal

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// session is one ordinary connection, opened when it is needed.
type session struct {
	options Options
	turn    chan struct{}
	pg      *pgconn.PgConn
	// pinned: the session's state matters, so it must not be replaced by another one.
	pinned bool
	lost   error
	closed bool
}

func newSession(o Options) session {
	s := session{options: o, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// use runs f on the connection, alone. Errors are classified.
func (s *session) use(ctx context.Context, f func(*pgconn.PgConn) error) error {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { s.turn <- struct{}{} }()
	if err := s.open(ctx); err != nil {
		return err
	}
	err := f(s.pg)
	if s.pg.IsClosed() {
		s.drop()
	}
	return classify(ctx, phaseCatalog, err)
}

func (s *session) open(ctx context.Context) error {
	switch {
	case s.closed:
		return ErrClosed
	case s.lost != nil:
		return s.lost
	case s.pg != nil:
		return nil
	}
	pg, err := OpenPlain(ctx, s.options)
	s.pg = pg
	return err
}

// OpenPlain opens an ordinary connection with the pinned settings in force: for the
// catalog, and for whoever reads rows that must look as the stream's. The caller closes it.
func OpenPlain(ctx context.Context, o Options) (*pgconn.PgConn, error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	pg, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, classify(ctx, phaseCatalog, err)
	}
	if err := checkCatalog(ctx, pg); err != nil {
		_ = pg.Close(ctx)
		return nil, classify(ctx, phaseCatalog, err)
	}
	return pg, nil
}

// PlainOpener is OpenPlain for whoever must not know the address.
func PlainOpener(o Options) func(context.Context) (*pgconn.PgConn, error) {
	o = o.withDefaults()
	return func(ctx context.Context) (*pgconn.PgConn, error) { return OpenPlain(ctx, o) }
}

// ClassifyPlain sorts an error of a connection of OpenPlain: a *core.Halt,
// ErrConnectionLost, or the context's own error.
func ClassifyPlain(ctx context.Context, err error) error { return classify(ctx, phaseCatalog, err) }

// checkCatalog sets and reads back the pinned settings, as a replication connection does.
func checkCatalog(ctx context.Context, pg *pgconn.PgConn) error {
	major, err := serverMajor(pg.ParameterStatus("server_version"))
	if err != nil {
		return err
	}
	rows, err := simpleQuery(ctx, pg, lateSettings(major)+checkSettings(major))
	if err != nil {
		return err
	}
	if len(rows) != 1 || len(rows[0]) != 3 || rows[0][0] != "" {
		return core.NewHalt(core.HaltSourcePooler, phaseCatalog.String(),
			"settings sent at the start of the connection are not in force")
	}
	return nil
}

// drop forgets a connection that is gone. The driver closes it when ctx ends within a
// query.
func (s *session) drop() {
	s.pg = nil
	if s.pinned {
		s.lost = &LostError{Op: phaseCatalog.String(), Reason: "the session that held the bootstrap lock is gone"}
	}
}

func (s *session) close() error {
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	s.closed = true
	if s.pg == nil {
		return nil
	}
	const polite = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), polite)
	defer cancel()
	_ = s.pg.Close(ctx)
	s.pg = nil
	return nil
}
