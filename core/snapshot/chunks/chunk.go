package chunks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// Pauses between snapshots that do not show yet what they must.
const (
	unseenMin = time.Millisecond
	unseenMax = 100 * time.Millisecond
)

// errAway: the publications have neither the table nor one of its name.
var errAway = fmt.Errorf("%w: the table is not published", ErrAgain)

// chunk reads the rows of a range, or of a list of keys: lock, snapshot, rows, end of the
// WAL, in this order.
func (r *Reader) chunk(ctx context.Context, job incremental.Job) (incremental.Read, error) {
	found := incremental.Read{ID: job.ID}
	t, shown, err := r.seeing(ctx, job)
	if errors.Is(err, errAway) {
		found.Away = true
		return found, r.exec(ctx, "ROLLBACK")
	}
	if err != nil {
		return found, err
	}
	found.Snapshot = shown
	relation := t.Relation
	r.o.Describe(ctx, &relation)
	found.Relation = &relation
	columns, err := r.columns(ctx, t)
	if err != nil {
		return found, err
	}
	if len(columns) == 0 {
		return found, ErrAgain // another look will find that it has no key
	}
	if found.Rows, found.Cut, err = r.read(ctx, t, columns, job); err != nil {
		return found, err
	}
	_ = failpoint.Hit(failpoint.ChunkSelected)
	high, err := r.end(ctx)
	if err != nil {
		return found, err
	}
	found.High = incremental.HighMark(high, r.block, r.file)
	_ = failpoint.Hit(failpoint.ChunkMarked)
	return found, r.exec(ctx, "COMMIT")
}

// seeing opens transactions until one shows all that was received. The transactions to be
// seen are committed: so this ends.
func (r *Reader) seeing(ctx context.Context, job incremental.Job) (*snapshot.Table, incremental.Snapshot, error) {
	var shown incremental.Snapshot
	var held map[uint32]bool
	for wait := unseenMin; ; wait = min(2*wait, unseenMax) {
		if err := r.replayed(ctx, job.Replayed); err != nil {
			return nil, shown, err
		}
		var err error
		if shown, held, err = r.locked(ctx, job.Table); err != nil {
			return nil, shown, err
		}
		if seesAll(&shown, job.Received) {
			break
		}
		if err := r.exec(ctx, "ROLLBACK"); err != nil {
			return nil, shown, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, shown, context.Cause(ctx)
		}
	}
	_ = failpoint.Hit(failpoint.ChunkSnapshot)
	tables, err := snapshot.Tables(ctx, r.conn, r.o.Publications)
	if err != nil {
		return nil, shown, err
	}
	t := find(tables, job.Table)
	if t == nil {
		return nil, shown, errAway
	}
	if t.Relation.OID != job.Table.OID {
		return nil, shown, ErrAgain
	}
	if now := member(t); !now.Same(job.Table) {
		return nil, shown, ErrAgain // its bounds are of another order; another look will find that
	}
	for _, leaf := range t.Leaves {
		if held != nil && !held[leaf.OID] {
			return nil, shown, ErrAgain // a partition that came between the locks and the snapshot
		}
	}
	return t, shown, t.Refusal()
}

func seesAll(s *incremental.Snapshot, received []uint32) bool {
	for _, xid := range received {
		if !s.Visible(xid) {
			return false
		}
	}
	return true
}

// locked begins a transaction, locks the table, and then takes the snapshot: what rewrites
// or truncates the table waits from before the snapshot to behind the read. The lock is by
// name; whether it is the table that is meant, is seen under the snapshot.
func (r *Reader) locked(ctx context.Context, m incremental.Member) (s incremental.Snapshot, held map[uint32]bool, err error) {
	tables, err := r.lockTable(ctx, m)
	if err != nil {
		return s, held, err
	}
	_ = failpoint.Hit(failpoint.ChunkLocked)
	if s, err = r.first(ctx); err != nil {
		return s, held, err
	}
	if tables != nil {
		held, err = r.holds(ctx, m, tables)
	}
	return s, held, err
}

// first takes the snapshot of the transaction, and sees that the server is the stream's.
func (r *Reader) first(ctx context.Context) (s incremental.Snapshot, err error) {
	if r.o.Standby != nil {
		s, err = r.shown(ctx)
		return over(s), err
	}
	row, err := r.one(ctx, `SELECT pg_catalog.pg_current_snapshot(), pg_catalog.pg_is_in_recovery(),
 CASE WHEN pg_catalog.pg_is_in_recovery() THEN '' ELSE pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()) END,
 (SELECT system_identifier FROM pg_catalog.pg_control_system())`, 4)
	if err != nil {
		return s, err
	}
	if row[1] != "f" || row[3] != r.o.SystemIdentifier || !strings.HasPrefix(row[2], fmt.Sprintf("%08X", r.o.Timeline)) {
		return s, ErrElsewhere
	}
	return parsed(row[0])
}
