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
)

// A standby does not say which transactions run: pg_current_snapshot has an empty list there,
// since recovery keeps what runs in another place. What ends below the oldest one is over;
// of the others nothing is known. So the snapshot proves itself by positions: what was
// replayed before it was taken is visible, and a standby streams nothing else.

// Standby names the standby that the stream reads from by the process that sends it: another
// standby of the same primary may have replayed less.
type Standby struct {
	Slot string
	PID  uint32
}

// errNotFed: only from a stream that runs it is known how far the standby can have replayed.
var errNotFed = fmt.Errorf("%w: the standby is not streaming from its primary, or has replayed beyond what it received", ErrAgain)

// recovering is the answer to one expression, if the server is the standby that the stream
// reads from.
func (r *Reader) recovering(ctx context.Context, expression string) (string, error) {
	row, err := r.one(ctx, `SELECT `+expression+`, pg_catalog.pg_is_in_recovery(), (SELECT system_identifier FROM pg_catalog.pg_control_system()),
 coalesce((SELECT active_pid FROM pg_catalog.pg_replication_slots WHERE slot_name = `+snapshot.QuoteLiteral(r.o.Standby.Slot)+`), 0)`, 4)
	if err != nil {
		return "", err
	}
	pid, ok := number(row[3])
	if row[1] != "t" || row[2] != r.o.SystemIdentifier || !ok || pid == 0 || pid != uint64(r.o.Standby.PID) {
		return "", ErrElsewhere
	}
	return row[0], nil
}

// shown is a snapshot of the standby as it prints it. In a transaction that asked nothing
// before it is the transaction's own.
func (r *Reader) shown(ctx context.Context) (incremental.Snapshot, error) {
	text, err := r.recovering(ctx, "pg_catalog.pg_current_snapshot()")
	if err != nil {
		return incremental.Snapshot{}, err
	}
	return parsed(text)
}

// snapshot is one that a writer wait is judged by.
func (r *Reader) snapshot(ctx context.Context) (incremental.Snapshot, error) {
	if r.o.Standby != nil {
		s, err := r.shown(ctx)
		return over(s), err
	}
	row, err := r.one(ctx, "SELECT pg_catalog.pg_current_snapshot()", 1)
	if err != nil {
		return incremental.Snapshot{}, err
	}
	return parsed(row[0])
}

// over is a snapshot that shows no more than what is certain.
func over(s incremental.Snapshot) incremental.Snapshot {
	return incremental.Snapshot{Min: s.Min, Max: s.Min}
}

// running stands for all transactions that may be open. The snapshot's own end would be too
// low: it is behind what has ended, and one that is newer runs above it. age tells the number
// that comes next as the standby knows it: above all that wrote what was replayed.
func (r *Reader) running(ctx context.Context) ([]incremental.Writer, error) {
	text, err := r.recovering(ctx, `pg_catalog.concat_ws(' ', pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()),
 pg_catalog.age(pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::pg_catalog.xid))`)
	if err != nil {
		return nil, err
	}
	oldest, ahead, _ := strings.Cut(text, " ")
	from, ok := number(oldest)
	n, err := strconv.ParseInt(ahead, 10, 32)
	if !ok || err != nil {
		return nil, shape("which transactions run")
	}
	return newest(from, n), nil
}

// newest is the last of n transactions from the oldest one that runs: when it is below
// everything that runs, all of them are over.
func newest(oldest uint64, n int64) []incremental.Writer {
	if n <= 0 {
		return nil
	}
	return []incremental.Writer{{XID: uint32(oldest + uint64(n) - 1), Who: "on the primary"}}
}

// replayed waits until the standby has replayed what the stream had brought. It is asked
// outside the transaction: a query inside would take the snapshot.
func (r *Reader) replayed(ctx context.Context, to core.LSN) error {
	if r.o.Standby == nil {
		return nil
	}
	for wait := unseenMin; ; wait = min(2*wait, unseenMax) {
		text, err := r.recovering(ctx, "pg_catalog.pg_last_wal_replay_lsn()")
		if err != nil {
			return err
		}
		at, err := lsn(text)
		if err != nil || at >= to {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// received is the end of what a snapshot before it can show. The position of the replay would
// be too low: a commit is visible before the replay has passed it, and for as long as it
// removes files. So it would be while an archive is replayed, of which the end is not told:
// but no receiver runs then, and when one does, the replay has passed the archive. Hence the
// positions are read behind the row. A role that may not see the status sees the row.
func (r *Reader) received(ctx context.Context) (core.LSN, error) {
	rows, err := r.rows(ctx, `SELECT coalesce(pg_catalog.pg_last_wal_replay_lsn(), '0/0'), coalesce(pg_catalog.pg_last_wal_receive_lsn(), '0/0')
 FROM pg_catalog.pg_stat_wal_receiver WHERE coalesce(status, 'streaming') = 'streaming'`)
	switch {
	case err != nil:
		return 0, err
	case len(rows) == 0:
		return 0, errNotFed
	case len(rows[0]) != 2:
		return 0, shape("a position")
	}
	replay, errReplay := core.ParseLSN(rows[0][0])
	receive, errReceive := core.ParseLSN(rows[0][1])
	switch {
	case errReplay != nil || errReceive != nil:
		return 0, shape("a position")
	case receive == 0 || receive < replay:
		return 0, errNotFed
	}
	return receive, nil
}

// end is the end of the WAL behind what a snapshot before it shows.
func (r *Reader) end(ctx context.Context) (core.LSN, error) {
	if r.o.Standby != nil {
		return r.received(ctx)
	}
	row, err := r.one(ctx, "SELECT pg_catalog.pg_current_wal_insert_lsn()", 1)
	if err != nil {
		return 0, err
	}
	return lsn(row[0])
}

// highMark is the end as the stream tells it.
func (r *Reader) highMark(ctx context.Context) (core.LSN, error) {
	at, err := r.end(ctx)
	return incremental.HighMark(at, r.block, r.file), err
}

// refuseUnkeyed: a copy of a table without a key is told apart from the stream by which
// transactions its snapshot shows, and that is not known here.
func (r *Reader) refuseUnkeyed(m incremental.Member) error {
	if r.o.Standby == nil {
		return nil
	}
	return incremental.Unkeyed(m)
}
