package chunks

import (
	"context"
	"strconv"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// Rows of one FETCH at most, and how much more it may be than the last one while nothing is
// known of the table from before.
const (
	fetchMost   = 1000
	fetchGrowth = 8
)

// fetching is how many rows to ask for, so that few come that have no room. What comes and
// has none is thrown away and never held.
type fetching struct {
	mean  int // bytes of a row, as far as is known; 0 where nothing is
	known bool
	last  int
	rows  int
	bytes int
}

// next is the number of rows of the next FETCH, where there is room for so many bytes.
func (f *fetching) next(room int) int {
	mean, most := f.mean, fetchMost
	if f.rows > 0 {
		mean = f.bytes/f.rows + 1
	}
	if !f.known {
		most = max(1, min(fetchMost, fetchGrowth*f.last))
	}
	if mean == 0 {
		f.last = 1
	} else {
		f.last = max(1, min(most, max(room, 0)/mean+1))
	}
	return f.last
}

func (f *fetching) came(row core.Tuple) {
	f.rows++
	f.bytes += len(row.Packed())
}

// fetching begins with what the rows of a table had before.
func (r *Reader) fetching(table uint32) *fetching {
	mean := r.means[table]
	return &fetching{mean: mean, known: mean > 0}
}

// learn keeps what is known of a table.
func (r *Reader) learn(table uint32, f *fetching) {
	if f.rows > 0 {
		r.means[table] = f.bytes/f.rows + 1
	}
}

// read takes rows until the range or list, the number of rows or the bytes are at their end.
// The first row is taken whatever its size.
func (r *Reader) read(ctx context.Context, t *snapshot.Table, columns []keyColumn, job incremental.Job) (rows []core.Tuple, cut bool, err error) {
	var conditions []string
	limit := job.Rows
	if job.Keys != nil {
		conditions = append(conditions, among(columns, job.Keys))
		limit = len(job.Keys)
	} else {
		if job.Range.Lo != nil {
			conditions = append(conditions, above(columns, job.Range.Lo))
		}
		if job.Range.Hi != nil {
			conditions = append(conditions, upTo(columns, job.Range.Hi))
		}
	}
	if err := r.exec(ctx, "DECLARE chunk NO SCROLL CURSOR FOR "+t.Select(" ORDER BY "+order(columns), conditions...)); err != nil {
		return nil, false, err
	}
	f := r.fetching(t.Relation.OID)
	defer r.learn(t.Relation.OID, f)
	for held := 0; ; {
		n := min(f.next(job.Bytes-held), limit+1-len(rows)) // one more tells whether rows are left
		more, err := r.fetch(ctx, n, len(t.Relation.Columns), func(row core.Tuple) error {
			f.came(row)
			if cut = cut || len(rows) > 0 && (len(rows) >= limit || held+len(row.Packed()) > job.Bytes); !cut {
				rows = append(rows, row)
				held += len(row.Packed())
			}
			return nil
		})
		if err != nil || cut || !more {
			return rows, cut, err
		}
	}
}

// fetch gives each row that comes; one is in memory at a time.
func (r *Reader) fetch(ctx context.Context, n, columns int, each func(core.Tuple) error) (more bool, err error) {
	reader := r.conn.Exec(ctx, "FETCH "+strconv.Itoa(n)+" FROM chunk")
	var builder core.TupleBuilder
	came := 0
	for reader.NextResult() {
		result := reader.ResultReader()
		for result.NextRow() {
			values := result.Values()
			if len(values) != columns {
				_ = reader.Close()
				return false, shape("a row")
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
			came++
			if err := each(row); err != nil {
				_ = reader.Close()
				return false, err
			}
		}
	}
	return came == n, reader.Close()
}
