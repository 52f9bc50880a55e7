package testsink

import (
	"context"
	"sync"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// Store is the destination. It connects when it is first needed, so that the sink can be
// asked what it can do while the destination is down.
type Store struct {
	config Config

	mu         sync.Mutex
	idle       []*session
	ready      bool   // our own tables exist
	generation uint64 // rises with each committed DDL
}

var (
	_ sink.MessageStore  = (*Store)(nil)
	_ sink.SchemaStore   = (*Store)(nil)
	_ sink.SnapshotStore = (*Store)(nil)
	_ sink.Counter       = (*tx)(nil)
)

// Open makes a store. Close ends its idle connections.
func Open(c Config) *Store {
	if c.Kind == "" {
		c.Kind = KindMirror
	}
	return &Store{config: c}
}

// Close ends the idle connections.
func (s *Store) Close() {
	s.mu.Lock()
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	for _, session := range idle {
		session.close()
	}
}

// Begin takes a connection. The transaction outlives ctx: see the package comment.
func (s *Store) Begin(ctx context.Context, stream string) (sink.StoreTx, error) {
	session, err := s.take(context.WithoutCancel(ctx))
	if err != nil {
		return nil, notDone(err)
	}
	return &tx{store: s, session: session, stream: stream, step: s.config.Step}, nil
}

func (s *Store) take(ctx context.Context) (*session, error) {
	s.mu.Lock()
	ready, generation := s.ready, s.generation
	for len(s.idle) > 0 {
		last := s.idle[len(s.idle)-1]
		s.idle = s.idle[:len(s.idle)-1]
		if last.conn.IsClosed() {
			continue
		}
		s.mu.Unlock()
		if last.generation != generation {
			last.forget()
			last.generation = generation
		}
		return last, nil
	}
	s.mu.Unlock()
	fresh, err := connect(ctx, s.config.DSN)
	if err != nil {
		return nil, err
	}
	fresh.generation = generation
	if ready {
		return fresh, nil
	}
	for _, sql := range ownTables {
		if err := fresh.queue(sql, &arguments{}); err != nil {
			fresh.close()
			return nil, err
		}
		if _, err := fresh.sync(); err != nil {
			fresh.close()
			return nil, err
		}
	}
	s.mu.Lock()
	s.ready = true
	s.mu.Unlock()
	return fresh, nil
}

// give returns a connection that is not inside a transaction.
func (s *Store) give(session *session, ddl bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ddl {
		s.generation++
		session.generation = s.generation
	}
	s.idle = append(s.idle, session)
}

// ownTables are made on first use, under a lock that two sinks of one destination share.
// A number from one sequence orders log entries and messages among each other. The log
// has no index: nothing may keep a repeat out.
var ownTables = []string{
	`BEGIN`,
	`SELECT pg_advisory_xact_lock(7465737473)`,
	`CREATE SCHEMA IF NOT EXISTS testsink`,
	`CREATE SEQUENCE IF NOT EXISTS testsink.seq`,
	`CREATE TABLE IF NOT EXISTS testsink.stream (
	stream text PRIMARY KEY, system_identifier text NOT NULL, database text NOT NULL,
	lineage bytea NOT NULL, epoch bigint NOT NULL, sender bytea NOT NULL, position pg_lsn, resume_state bytea)`,
	`CREATE TABLE IF NOT EXISTS testsink.log (
	seq bigint NOT NULL DEFAULT nextval('testsink.seq'), stream text NOT NULL, commit_lsn pg_lsn NOT NULL,
	ordinal bigint NOT NULL, op text NOT NULL, relation text, payload text NOT NULL, inserted_by int NOT NULL, run bytea)`,
	`CREATE TABLE IF NOT EXISTS testsink.message (
	seq bigint NOT NULL DEFAULT nextval('testsink.seq'), stream text NOT NULL, lsn pg_lsn NOT NULL,
	commit_lsn pg_lsn, ordinal bigint, prefix bytea NOT NULL, content bytea NOT NULL, inserted_by int NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS testsink.snapshot (stream text PRIMARY KEY, generation bigint NOT NULL, token bytea)`,
	`CREATE TABLE IF NOT EXISTS testsink.chunk (
	seq bigint NOT NULL DEFAULT nextval('testsink.seq'), stream text NOT NULL, run bytea NOT NULL, generation bigint NOT NULL,
	relation text, lsn pg_lsn, first bool NOT NULL, reset int NOT NULL, last bool NOT NULL, sweep bool NOT NULL,
	rows bigint NOT NULL, token_bytes int, complete bool NOT NULL, inserted_by int NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS testsink.completion (
	seq bigint NOT NULL DEFAULT nextval('testsink.seq'), stream text NOT NULL, run bytea NOT NULL, generation bigint NOT NULL,
	position pg_lsn NOT NULL, relations text[] NOT NULL, inserted_by int NOT NULL)`,
	`COMMIT`,
}

// ApplyMessage stores a message that belongs to no transaction.
func (s *Store) ApplyMessage(in sink.StoreTx, m *core.Message) error {
	t := in.(*tx)
	if err := t.write(); err != nil {
		return err
	}
	t.unit = true
	return t.message(m, nil, 0)
}
