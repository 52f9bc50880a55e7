package snapshot

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Batch is rows of one part that fit into one unit, and the memory that they are in.
type Batch struct {
	Table *Table
	Rows  []core.Tuple
	// Bytes is the packed size of the rows.
	Bytes int
	buf   []byte
}

// rowOverhead is what a row takes in a request beside its packed bytes, at most.
const rowOverhead = 8

// Batches reads a part and cuts it into batches.
type Batches struct {
	Part Part
	// Preferred is the packed size at which a batch is handed on; Limit that above which a
	// single row cannot be sent. Both are in bytes and leave room for the relation.
	Preferred, Limit int
	// Free gives back batches that are no longer in use; nil makes a new one each time.
	Free func() *Batch
}

// Read sends COPY on conn and gives each batch to emit, which owns it until it is given
// back by Free. An empty part gives none. While emit does not return, the server waits.
// An error of emit ends the reading and comes back as it is; conn is then of no more use.
func (b Batches) Read(ctx context.Context, conn *pgconn.PgConn, emit func(*Batch) error) error {
	w := &batcher{Batches: b, emit: emit, reader: rowReader{columns: len(b.Part.Table.Relation.Columns)}}
	_, err := conn.CopyTo(ctx, w, b.Part.Copy())
	if w.err != nil {
		return w.err
	}
	if err != nil {
		return err
	}
	return w.flush()
}

// batcher is where the driver writes the rows, one a call: the server sends one in a
// message, and the driver hands on each message's bytes.
type batcher struct {
	Batches
	emit   func(*Batch) error
	reader rowReader
	batch  *Batch
	err    error
}

// Write takes one row.
func (w *batcher) Write(line []byte) (int, error) {
	if w.err = w.row(line); w.err != nil {
		return 0, w.err
	}
	return len(line), nil
}

func (w *batcher) row(line []byte) error {
	if w.batch == nil {
		w.batch = w.empty()
	}
	b := w.batch
	before := len(b.buf)
	tuple, buf, err := w.reader.read(b.buf, line)
	if err != nil {
		return err
	}
	size := len(buf) - before + rowOverhead
	if size > w.Limit {
		halt := core.NewHalt(core.HaltValueTooLarge, "snapshot", "a row of %d bytes, the largest request has room for %d", size, w.Limit)
		halt.Relation = w.Part.Table.String()
		return halt
	}
	if b.Bytes > 0 && b.Bytes+size > w.Limit {
		// It goes into the next batch; the bytes behind the present one are left alone.
		if err := w.flush(); err != nil {
			return err
		}
		return w.row(line)
	}
	b.buf, b.Rows, b.Bytes = buf, append(b.Rows, tuple), b.Bytes+size
	if b.Bytes >= w.Preferred {
		return w.flush()
	}
	return nil
}

func (w *batcher) empty() *Batch {
	if w.Free != nil {
		if b := w.Free(); b != nil {
			b.Table, b.Rows, b.Bytes, b.buf = w.Part.Table, b.Rows[:0], 0, b.buf[:0]
			return b
		}
	}
	return &Batch{Table: w.Part.Table, buf: make([]byte, 0, min(w.Preferred+w.Preferred/8, w.Limit))}
}

func (w *batcher) flush() error {
	if w.batch == nil || len(w.batch.Rows) == 0 {
		return nil
	}
	full := w.batch
	w.batch = nil
	return w.emit(full)
}
