package snapshot

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// lockWait bounds one try at the locks. It is less than deadlock_timeout's default: who
// needs a lock of ours gets it before the server looks for a deadlock.
const (
	lockWait        = 500 * time.Millisecond
	lockWaitSetting = "500"
)

// lockedError is a table that somebody is changing. Reading the catalog runs into it too:
// sizes and expressions are told under a lock on the table.
type lockedError struct{ table string }

// Error names the table.
func (e *lockedError) Error() string { return "table " + e.table + " is locked" }

func lockTimeout(err error) bool {
	var failed *pgconn.PgError
	return errors.As(err, &failed) && failed.Code == "55P03"
}

// locked makes a lock that was not given within lockWait a *lockedError, and classifies
// every other error. A transaction that conn was in is over afterwards.
func (s Source) locked(ctx context.Context, conn *pgconn.PgConn, err error) error {
	if !lockTimeout(err) {
		return s.classified(ctx, err)
	}
	rows, err := query(ctx, conn, `ROLLBACK; SELECT n.nspname || '.' || c.relname FROM pg_catalog.pg_locks l
JOIN pg_catalog.pg_class c ON c.oid = l.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE l.mode = 'AccessExclusiveLock' AND l.granted AND c.relkind IN ('r', 'p') AND c.oid >= 16384
 AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()) ORDER BY 1 LIMIT 1`)
	if err != nil {
		return s.Classify(ctx, err)
	}
	if len(rows) == 0 {
		return &lockedError{"(unlocked meanwhile)"}
	}
	return &lockedError{rows[0][0]}
}

// patiently repeats f while a table is locked, and tells waiting about it.
func patiently(ctx context.Context, waiting func(table string), f func() error) error {
	for {
		err := f()
		var busy *lockedError
		if !errors.As(err, &busy) {
			return err
		}
		if waiting != nil {
			waiting(busy.table)
		}
		select {
		case <-time.After(lockWait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
