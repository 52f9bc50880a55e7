package chunks

import (
	"context"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// copy reads a whole table under one snapshot, through a cursor. The end of the WAL is read
// behind the snapshot: nothing that the snapshot shows ends above it.
func (r *Reader) copy(ctx context.Context, job incremental.Job, hand func(context.Context, Result) error) (incremental.Read, error) {
	found := incremental.Read{ID: job.ID}
	if err := r.refuseUnkeyed(job.Table); err != nil {
		return found, err
	}
	t, shown, err := r.seeing(ctx, job)
	if err != nil {
		return found, err
	}
	relation := t.Relation
	r.o.Describe(ctx, &relation)
	row, err := r.one(ctx, "SELECT pg_catalog.pg_current_wal_insert_lsn()", 1)
	if err != nil {
		return found, err
	}
	found.Snapshot, found.Relation = shown, &relation
	if found.High, err = lsn(row[0]); err != nil {
		return found, err
	}
	if err := hand(ctx, Result{Read: found}); err != nil {
		return found, err
	}
	if err := r.exec(ctx, "DECLARE chunk NO SCROLL CURSOR FOR "+t.Select("")); err != nil {
		return found, err
	}
	var rows []core.Tuple
	held := 0
	f := r.fetching(relation.OID)
	defer r.learn(relation.OID, f)
	for {
		more, err := r.fetch(ctx, f.next(job.Bytes-held), len(relation.Columns), func(row core.Tuple) error {
			f.came(row)
			if len(rows) > 0 && (len(rows) >= job.Rows || held+len(row.Packed()) > job.Bytes) {
				piece := found
				piece.Rows, piece.Cut = rows, true
				_ = failpoint.Hit(failpoint.ChunkMarked)
				if err := hand(ctx, Result{Read: piece}); err != nil {
					return err
				}
				rows, held = nil, 0
			}
			rows = append(rows, row)
			held += len(row.Packed())
			return nil
		})
		if err != nil {
			return found, err
		}
		if !more {
			found.Rows = rows
			return found, r.exec(ctx, "COMMIT")
		}
	}
}
