package snapshot

import (
	"bytes"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// rowReader turns the rows of COPY ... TO STDOUT in text format into packed tuples.
// Source: https://www.postgresql.org/docs/current/sql-copy.html (Text Format).
type rowReader struct {
	columns int
	builder core.TupleBuilder
	scratch []byte
}

// errRow is a row that COPY would not send. It says nothing of the row.
func errRow(why string) error {
	return core.NewHalt(core.HaltMalformedStream, "snapshot", "a row of COPY %s", why)
}

// read appends one row, as the server sends it in one message, to buf. The tuple aliases
// the grown buffer, which may move when the next row is appended.
func (r *rowReader) read(buf, line []byte) (core.Tuple, []byte, error) {
	if len(line) == 0 || line[len(line)-1] != '\n' {
		return core.Tuple{}, buf, errRow("does not end with its line")
	}
	line = line[:len(line)-1]
	r.builder.Begin(buf, r.columns)
	if r.columns == 0 {
		if len(line) > 0 {
			return core.Tuple{}, buf, errRow("has columns where there are none")
		}
		tuple, grown := r.builder.Tuple()
		return tuple, grown, nil
	}
	escaped := bytes.IndexByte(line, '\\') >= 0
	for i := range r.columns {
		field := line
		at := bytes.IndexByte(line, '\t')
		if last := i == r.columns-1; last != (at < 0) {
			return core.Tuple{}, buf, errRow("has another number of columns")
		}
		if at >= 0 {
			field, line = line[:at], line[at+1:]
		}
		switch {
		case !escaped || bytes.IndexByte(field, '\\') < 0:
			r.builder.Add(core.ValueText, field)
		case len(field) == 2 && field[1] == 'N':
			r.builder.Add(core.ValueNull, nil)
		default:
			if !r.unescape(field) {
				return core.Tuple{}, buf, errRow("has an escape that Postgres does not write")
			}
			r.builder.Add(core.ValueText, r.scratch)
		}
	}
	tuple, grown := r.builder.Tuple()
	return tuple, grown, nil
}

// unescape writes the value into scratch: the output side of COPY escapes with a
// backslash and one letter, and nothing else.
func (r *rowReader) unescape(field []byte) bool {
	out := r.scratch[:0]
	for {
		at := bytes.IndexByte(field, '\\')
		if at < 0 {
			r.scratch = append(out, field...)
			return true
		}
		if at+1 == len(field) {
			return false
		}
		letter := field[at+1]
		value, known := escapes[letter]
		if !known {
			return false
		}
		out = append(append(out, field[:at]...), value)
		field = field[at+2:]
	}
}

var escapes = map[byte]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', '\\': '\\'}
