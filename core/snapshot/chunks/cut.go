package chunks

import (
	"context"
	"strconv"

	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// cut finds the key of every so many rows of a range, a few of them. No row is read by it: any
// keys cut a range rightly.
func (r *Reader) cut(ctx context.Context, job incremental.Job) (keys []incremental.Key, err error) {
	if err := r.exec(ctx, begin+"; "+r.lockTimeout("LOCAL ")); err != nil {
		return nil, err
	}
	tables, err := snapshot.Tables(ctx, r.conn, r.o.Publications)
	if err != nil {
		return nil, err
	}
	t := find(tables, job.Table)
	if t == nil {
		return nil, ErrAgain
	}
	if now := member(t); !now.Same(job.Table) {
		return nil, ErrAgain
	}
	columns, err := r.columns(ctx, t)
	if err != nil {
		return nil, err
	}
	for lo := job.Range.Lo; len(keys) < job.Pieces; lo = keys[len(keys)-1] {
		var conditions []string
		if lo != nil {
			conditions = append(conditions, above(columns, lo))
		}
		if job.Range.Hi != nil {
			conditions = append(conditions, upTo(columns, job.Range.Hi))
		}
		rows, err := r.rows(ctx, "SELECT "+order(columns)+" FROM "+t.From()+t.Where(conditions...)+" ORDER BY "+order(columns)+
			" OFFSET "+strconv.Itoa(job.Rows-1)+" LIMIT 1")
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			break
		}
		keys = append(keys, incremental.Key(rows[0]))
	}
	return keys, r.exec(ctx, "COMMIT")
}
