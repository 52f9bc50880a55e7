package chunks

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// Pauses between snapshots that do not show yet what they must.
const (
	unseenMin = time.Millisecond
	unseenMax = 100 * time.Millisecond
)

// chunk reads the rows of a range, or of a list of keys: lock, snapshot, rows, end of the
// WAL, in this order.
func (r *Reader) chunk(ctx context.Context, job incremental.Job) (incremental.Read, error) {
	found := incremental.Read{ID: job.ID}
	t, shown, err := r.seeing(ctx, job)
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
	if t == nil || t.Relation.OID != job.Table.OID {
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
	if r.o.Standby != nil {
		s, err = r.shown(ctx)
		return over(s), held, err
	}
	row, err := r.one(ctx, `SELECT pg_catalog.pg_current_snapshot(), pg_catalog.pg_is_in_recovery(),
 CASE WHEN pg_catalog.pg_is_in_recovery() THEN '' ELSE pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()) END,
 (SELECT system_identifier FROM pg_catalog.pg_control_system())`, 4)
	if err != nil {
		return s, held, err
	}
	if row[1] != "f" || row[3] != r.o.SystemIdentifier || !strings.HasPrefix(row[2], fmt.Sprintf("%08X", r.o.Timeline)) {
		return s, held, ErrElsewhere
	}
	if tables != nil {
		if held, err = r.holds(ctx, m, tables); err != nil {
			return s, held, err
		}
	}
	s, err = parsed(row[0])
	return s, held, err
}

// Rows of one FETCH: the first brings few, since nothing is known of their size.
const (
	fetchFirst = 64
	fetchMost  = 1000
)

// read takes rows until the range, the number of rows or the bytes are at their end.
func (r *Reader) read(ctx context.Context, t *snapshot.Table, columns []keyColumn, job incremental.Job) (rows []core.Tuple, cut bool, err error) {
	var conditions []string
	limit := job.Rows
	switch {
	case job.Keys != nil:
		conditions = append(conditions, among(columns, job.Keys))
		limit = 0 // a list is never cut
	default:
		if job.Range.Lo != nil {
			conditions = append(conditions, above(columns, job.Range.Lo))
		}
		if job.Range.Hi != nil {
			conditions = append(conditions, upTo(columns, job.Range.Hi))
		}
	}
	sql := t.Select(" ORDER BY "+order(columns), conditions...)
	if err := r.exec(ctx, "DECLARE chunk NO SCROLL CURSOR FOR "+sql); err != nil {
		return nil, false, err
	}
	bytes, fetch := 0, fetchFirst
	for {
		if limit > 0 {
			fetch = min(fetch, limit+1-len(rows)) // one more tells whether rows are left
		}
		got, more, err := r.fetch(ctx, fetch, len(t.Relation.Columns))
		if err != nil {
			return nil, false, err
		}
		for i, row := range got {
			if limit > 0 && len(rows) > 0 && (len(rows) >= limit || bytes+len(row.Packed()) > job.Bytes) {
				return rows, true, nil
			}
			rows = append(rows, got[i])
			bytes += len(row.Packed())
		}
		if !more {
			return rows, false, nil
		}
		average := bytes/len(rows) + 1
		fetch = max(1, min(4*fetch, fetchMost, (max(job.Bytes-bytes, 0))/average+1))
	}
}

func (r *Reader) fetch(ctx context.Context, n, columns int) (rows []core.Tuple, more bool, err error) {
	reader := r.conn.Exec(ctx, "FETCH "+strconv.Itoa(n)+" FROM chunk")
	var builder core.TupleBuilder
	for reader.NextResult() {
		result := reader.ResultReader()
		for result.NextRow() {
			values := result.Values()
			if len(values) != columns {
				_ = reader.Close()
				return nil, false, shape("a row")
			}
			size := 0
			for _, v := range values {
				size += len(v)
			}
			builder.Begin(make([]byte, 0, core.PackedTupleMax(len(values), size)), len(values))
			for _, v := range values {
				if v == nil {
					builder.Add(core.ValueNull, nil)
				} else {
					builder.Add(core.ValueText, v)
				}
			}
			row, _ := builder.Tuple()
			rows = append(rows, row)
		}
	}
	return rows, len(rows) == n, reader.Close()
}
