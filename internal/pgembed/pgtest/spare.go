package pgtest

import (
	"context"
	"testing"
	"time"
)

// Spare lends this process' second server of the major to one test at a time, until that
// test's end. The test may change its settings by ALTER SYSTEM, stop, kill and restart it;
// afterwards it runs again, with the settings it had. It listens on loopback too.
func Spare(t testing.TB, major int) *Server {
	t.Helper()
	e, err := spare.entry(major)
	if err != nil {
		t.Fatal(err)
	}
	e.lent.Lock()
	t.Cleanup(e.lent.Unlock)
	s, err := spare.started(e, major)
	requireFound(t, major, err)
	t.Cleanup(func() {
		if err := s.restore(); err != nil {
			t.Errorf("restore the spare Postgres %d: %v", major, err)
		}
	})
	return s
}

// restore makes the server what it was. What was not touched costs no restart.
func (s *Server) restore() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if !s.Running() {
		if err := s.Restart(ctx); err != nil {
			return err
		}
	}
	// What a killed server, a standby or a test that failed has left would hold WAL.
	if _, err := s.strings(ctx, "postgres", `SELECT pg_drop_replication_slot(slot_name)::text FROM pg_replication_slots WHERE NOT active`); err != nil {
		return err
	}
	changed, err := s.strings(ctx, "postgres", `SELECT name FROM pg_file_settings WHERE sourcefile LIKE '%postgresql.auto.conf'`)
	if err != nil || len(changed) == 0 {
		return err
	}
	if err := s.exec(ctx, "postgres", "ALTER SYSTEM RESET ALL"); err != nil {
		return err
	}
	return s.Restart(ctx)
}
