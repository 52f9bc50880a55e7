package pgtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// DB is a database of one test's own.
type DB struct {
	Server *Server
	Name   string
	DSN    string
}

var databases atomic.Int64

// Database makes an empty database for one test. At the test's end its
// prepared transactions, subscriptions and slots, and then the database itself
// are dropped, whoever still uses them.
func (s *Server) Database(t testing.TB) *DB {
	t.Helper()
	name := fmt.Sprintf("t%d_%s", databases.Add(1), safeName(t.Name()))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.exec(ctx, "postgres", "CREATE DATABASE "+quote(name)); err != nil {
		t.Fatalf("create database %s on Postgres %d: %v", name, s.Major, err)
	}
	db := &DB{Server: s, Name: name, DSN: s.DSN(name)}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := db.drop(ctx); err != nil {
			t.Errorf("drop database %s on Postgres %d: %v", name, s.Major, err)
		}
	})
	return db
}

// ReplicationDSN is DSN for the replication protocol.
func (d *DB) ReplicationDSN() string { return d.DSN + "&replication=database" }

// Conn opens a connection that is closed at the test's end.
func (d *DB) Conn(t testing.TB) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, d.DSN)
	if err != nil {
		t.Fatalf("connect to %s on Postgres %d: %v", d.Name, d.Server.Major, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}

// Exec runs statements one after the other on a connection of their own, each
// in its own transaction.
func (d *DB) Exec(t testing.TB, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.Server.exec(ctx, d.Name, statements...); err != nil {
		t.Fatalf("Postgres %d: %v", d.Server.Major, err)
	}
}

func (s *Server) exec(ctx context.Context, database string, statements ...string) error {
	conn, err := pgx.Connect(ctx, s.DSN(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// strings runs a query of one text column.
func (s *Server) strings(ctx context.Context, database, sql string, args ...any) ([]string, error) {
	conn, err := pgx.Connect(ctx, s.DSN(database))
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// drop removes all that would keep the database, and the database.
func (d *DB) drop(ctx context.Context) error {
	if !d.Server.Running() {
		return nil // a private server that its test stopped; all of it goes
	}
	s := d.Server
	subs, err := s.strings(ctx, d.Name,
		`SELECT subname::text FROM pg_subscription s JOIN pg_database b ON b.oid = s.subdbid WHERE b.datname = current_database()`)
	if err != nil {
		return err
	}
	for _, sub := range subs {
		sub = quote(sub)
		if err := s.exec(ctx, d.Name, "ALTER SUBSCRIPTION "+sub+" DISABLE",
			"ALTER SUBSCRIPTION "+sub+" SET (slot_name = NONE)", "DROP SUBSCRIPTION "+sub); err != nil {
			return err
		}
	}
	prepared, err := s.strings(ctx, d.Name, `SELECT gid FROM pg_prepared_xacts WHERE database = current_database()`)
	if err != nil {
		return err
	}
	for _, gid := range prepared {
		if err := s.exec(ctx, d.Name, "ROLLBACK PREPARED '"+strings.ReplaceAll(gid, "'", "''")+"'"); err != nil {
			return err
		}
	}
	if err := d.dropSlots(ctx); err != nil {
		return err
	}
	return s.exec(ctx, "postgres", "DROP DATABASE IF EXISTS "+quote(d.Name)+" WITH (FORCE)")
}

// dropSlots drops the database's slots. A walsender that still holds one is
// ended, again and again, as its client may reconnect.
func (d *DB) dropSlots(ctx context.Context) error {
	const list = `SELECT slot_name::text FROM pg_replication_slots WHERE database = $1`
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		slots, err := d.Server.strings(ctx, "postgres", list, d.Name)
		if err != nil || len(slots) == 0 {
			return err
		}
		var errs []error
		for _, slot := range slots {
			errs = append(errs, d.Server.exec(ctx, "postgres",
				`SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND slot_name = `+literal(slot),
				`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = `+literal(slot)))
		}
		if err := errors.Join(errs...); err != nil && time.Now().After(deadline) {
			return err
		}
	}
}

func quote(name string) string   { return pgx.Identifier{name}.Sanitize() }
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// safeName makes a test's name fit a database's name.
func safeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return '_'
	}, name)
	return name[:min(len(name), 45)]
}
