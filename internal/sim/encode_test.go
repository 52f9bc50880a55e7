package sim

import (
	"encoding/binary"
	"strconv"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

var be = binary.BigEndian

// Type OIDs of the columns.
const (
	int4 = 23
	text = 25
)

// encoder writes records as pgoutput does on one connection, where a relation is
// described before its first row and again when its shape has changed.
type encoder struct {
	wal       *walLog
	described map[int]int // table to shape, plus one
	frames    [][]byte
	// Of a transaction in progress: the id that stands in front of each message, and what
	// was described in it.
	within uint32
	inside map[int]int
}

// record gives the frames of a record; none for what pgoutput passes over.
func (e *encoder) record(r *record, emptyToo bool) [][]byte {
	e.frames = nil
	rows := e.wal.visible(r)
	switch {
	case r.kind == message && e.wal.messages:
		e.add(r.end, appendMessage([]byte{'M', 0}, r.end, r.prefix, r.content))
	case r.kind == commit && (len(rows) > 0 || emptyToo):
		at := r.start - 8
		b := be.AppendUint64([]byte{'B'}, uint64(r.start))
		b = be.AppendUint64(b, uint64(micros(r)))
		e.add(at, be.AppendUint32(b, r.xid))
		for i := range rows {
			e.row(at, &rows[i])
		}
		b = be.AppendUint64([]byte{'C', 0}, uint64(r.start))
		b = be.AppendUint64(b, uint64(r.end))
		e.add(r.end, be.AppendUint64(b, uint64(micros(r))))
	}
	return e.frames
}

func (e *encoder) add(at core.LSN, body []byte) {
	if e.within != 0 {
		body = append(be.AppendUint32([]byte{body[0]}, e.within), body[1:]...)
	}
	e.frames = append(e.frames, waltest.AppendData(nil, uint64(at), body))
}

// micros is a record's time in Postgres' own count.
func micros(r *record) int64 {
	const epoch = 946_684_800 * 1_000_000
	return r.at.UnixMicro() - epoch
}

func (e *encoder) row(at core.LSN, r *row) {
	if r.op == core.OpMessage {
		e.add(at, appendMessage([]byte{'M', 1}, at, r.id, r.text))
		return
	}
	t := &e.wal.tables[r.table]
	described := e.described
	if e.within != 0 {
		described = e.inside
	}
	if described[r.table] != r.shape+1 {
		described[r.table] = r.shape + 1
		e.add(at, appendRelation(t, r.shape))
	}
	b := be.AppendUint32(nil, t.oid)
	switch r.op {
	case core.OpInsert:
		b = appendTuple(append(append([]byte{'I'}, b...), 'N'), r, false)
	case core.OpUpdate:
		b = appendTuple(append(append([]byte{'U'}, b...), 'N'), r, false)
	case core.OpDelete:
		b = appendTuple(append(append([]byte{'D'}, b...), 'K'), r, true)
	case core.OpTruncate:
		options := byte(0)
		if r.cascade {
			options = 1
		}
		b = append([]byte{'T', 0, 0, 0, 1, options}, b...)
	}
	e.add(at, b)
}

func appendRelation(t *table, shape int) []byte {
	b := be.AppendUint32([]byte{'R'}, t.oid)
	b = append(b, "public\x00"...)
	b = append(append(b, t.name...), 0, 'd')
	names := columns(shape)
	b = be.AppendUint16(b, uint16(len(names)))
	for i, name := range names {
		key, oid := byte(0), uint32(text)
		if i == 0 {
			key, oid = 1, int4
		}
		b = append(append(append(b, key), name...), 0)
		b = be.AppendUint32(be.AppendUint32(b, oid), 1<<32-1)
	}
	return b
}

// columns of a table after so many were added.
func columns(shape int) []string {
	names := []string{"id", "text"}
	for i := range shape {
		names = append(names, "added"+strconv.Itoa(i))
	}
	return names
}

// appendTuple writes id and text; added columns are NULL, and so is all but the key of
// a key.
func appendTuple(b []byte, r *row, key bool) []byte {
	b = be.AppendUint16(b, uint16(2+r.shape))
	for i := range 2 + r.shape {
		value := r.id
		if i == 1 {
			value = r.text
		}
		if i > 1 || key && i > 0 {
			b = append(b, 'n')
			continue
		}
		b = be.AppendUint32(append(b, 't'), uint32(len(value)))
		b = append(b, value...)
	}
	return b
}

func appendMessage(b []byte, at core.LSN, prefix, content string) []byte {
	b = be.AppendUint64(b, uint64(at))
	b = append(append(b, prefix...), 0)
	return append(be.AppendUint32(b, uint32(len(content))), content...)
}
