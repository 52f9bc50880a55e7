package main

import (
	"context"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// ownTables are beside the mirror. Epochs use all 64 bits, which a bigint has not.
const ownTables = `
CREATE TABLE IF NOT EXISTS _replicant_streams (
	stream_id text PRIMARY KEY, system_identifier text NOT NULL, database text NOT NULL, lineage bytea NOT NULL,
	epoch numeric NOT NULL, sender_id bytea NOT NULL, position pg_lsn, resume_state bytea);
CREATE TABLE IF NOT EXISTS _replicant_snapshots (stream_id text PRIMARY KEY, generation bigint NOT NULL, token bytea);
CREATE TABLE IF NOT EXISTS _replicant_messages (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	stream_id text NOT NULL, commit_lsn pg_lsn NOT NULL, ordinal bigint NOT NULL, prefix bytea NOT NULL, content bytea NOT NULL)`

// definitions is an advisory lock: who makes tables is alone with that.
const definitions = "SELECT pg_advisory_xact_lock(1919250540)"

// store is the destination.
type store struct {
	pool *pgxpool.Pool

	mu    sync.Mutex
	ready bool
	// shapes are tables as they were committed last: those need no second look.
	shapes map[string]string
}

// Begin opens a transaction. It is rolled back when ctx ends.
func (s *store) Begin(ctx context.Context, stream string) (sink.StoreTx, error) {
	pg, err := s.pool.Begin(ctx)
	if err != nil {
		return nil, refusal(err)
	}
	t := &tx{ctx: ctx, store: s, pg: pg, stream: stream, shapes: map[string]string{}}
	if err := t.own(); err != nil {
		_ = pg.Rollback(ctx)
		return nil, refusal(err)
	}
	return t, nil
}

// tx is one transaction of the destination.
type tx struct {
	ctx    context.Context
	store  *store
	pg     pgx.Tx
	stream string
	found  bool
	shapes map[string]string // tables that this transaction made or changed
	made   bool              // our own tables
}

// own makes our own tables, until a transaction that did has been committed.
func (t *tx) own() error {
	t.store.mu.Lock()
	ready := t.store.ready
	t.store.mu.Unlock()
	if ready {
		return nil
	}
	t.made = true
	if _, err := t.pg.Exec(t.ctx, definitions); err != nil {
		return err
	}
	_, err := t.pg.Exec(t.ctx, ownTables)
	return err
}

const loadSQL = `SELECT system_identifier, database, lineage, epoch::text, sender_id, coalesce(position, '0/0')::text, resume_state
	FROM _replicant_streams WHERE stream_id = $1 FOR UPDATE`

// Load locks the stream's row.
func (t *tx) Load() (row sink.StreamRow, found bool, err error) {
	var epoch, position string
	var sender []byte
	row.Stream = t.stream
	err = t.pg.QueryRow(t.ctx, loadSQL, t.stream).
		Scan(&row.SystemIdentifier, &row.Database, &row.Lineage, &epoch, &sender, &position, &row.ResumeState)
	if err == pgx.ErrNoRows {
		return row, false, nil
	}
	if err != nil {
		return row, false, refusal(err)
	}
	copy(row.Sender[:], sender)
	if row.Epoch, err = strconv.ParseUint(epoch, 10, 64); err != nil {
		return row, false, err
	}
	row.Position, err = core.ParseLSN(position)
	t.found = err == nil
	return row, t.found, err
}

const (
	insertSQL = `INSERT INTO _replicant_streams VALUES ($1, $2, $3, $4, $5::text::numeric, $6, nullif($7::text, '0/0')::pg_lsn, $8)`
	updateSQL = `UPDATE _replicant_streams SET epoch = $2::text::numeric, sender_id = $3,
		position = nullif($4::text, '0/0')::pg_lsn, resume_state = $5 WHERE stream_id = $1`
)

// Save stores the stream's row. A second transaction that makes the same row fails.
func (t *tx) Save(row sink.StreamRow) error {
	epoch := strconv.FormatUint(row.Epoch, 10)
	if t.found {
		return t.exec(updateSQL, row.Stream, epoch, row.Sender[:], row.Position.String(), row.ResumeState)
	}
	return t.exec(insertSQL, row.Stream, row.SystemIdentifier, row.Database, row.Lineage, epoch, row.Sender[:],
		row.Position.String(), row.ResumeState)
}

func (t *tx) exec(sql string, args ...any) error {
	_, err := t.pg.Exec(t.ctx, sql, args...)
	return refusal(err)
}

// Commit remembers the tables' shapes, which nobody can undo now.
func (t *tx) Commit() error {
	if err := t.pg.Commit(t.ctx); err != nil {
		return inDoubt(err)
	}
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = s.ready || t.made
	if s.shapes == nil {
		s.shapes = map[string]string{}
	}
	for name, shape := range t.shapes {
		s.shapes[name] = shape
	}
	return nil
}

// Rollback ends it also when its caller is gone.
func (t *tx) Rollback() error { return t.pg.Rollback(context.WithoutCancel(t.ctx)) }
