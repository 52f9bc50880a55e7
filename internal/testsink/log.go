package testsink

import (
	"encoding/hex"
	"os"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// logRun is entries that wait to be written, in their order.
type logRun struct {
	run                                    []byte // of a snapshot's rows, nil for those of the stream
	commit, ordinal, op, relation, payload array
	buf                                    []byte
}

// The array of positions is text; the other columns are what they are in the table. Rows
// of unnest come in the order of the arrays, and so the numbers of testsink.seq.
const logSQL = `INSERT INTO testsink.log (stream, commit_lsn, ordinal, op, relation, payload, inserted_by, run)
SELECT $1, u.commit_lsn::pg_lsn, u.ordinal, u.op, u.relation, u.payload, $2, $8
FROM unnest($3::text[], $4::int8[], $5::text[], $6::text[], $7::text[]) u (commit_lsn, ordinal, op, relation, payload)`

// entry adds one change to the log.
func (t *tx) entry(from *core.Transaction, ordinal uint64, c *core.Change) error {
	l := t.openLog(nil)
	l.commit.string(from.CommitLSN.String())
	l.ordinal.int8(int64(ordinal))
	l.op.string(c.Op.String())
	switch {
	case c.Relation != nil:
		l.relation.string(c.Relation.String())
	case c.Truncate != nil && len(c.Truncate.Relations) == 1:
		l.relation.string(c.Truncate.Relations[0].String())
	default:
		l.relation.null()
	}
	l.buf = payload(l.buf[:0], c)
	l.payload.text(l.buf)
	if l.ordinal.length < runRows && len(l.payload.buf) < flushBytes {
		return nil
	}
	return t.flushLog()
}

// openLog is the run of entries to add to: those of the stream, or those of one snapshot.
func (t *tx) openLog(run []byte) *logRun {
	l := &t.log
	if l.ordinal.length == 0 {
		for _, a := range []*array{&l.commit, &l.op, &l.relation, &l.payload} {
			a.start(oidText)
		}
		l.ordinal.start(oidInt8)
	}
	l.run = run
	return l
}

// snapshotEntry adds one row of a snapshot to the log. Units of a snapshot and
// transactions of the stream never share a store transaction.
func (t *tx) snapshotEntry(unit *core.SnapshotUnit, i int) error {
	l := t.openLog(unit.RunID[:])
	l.commit.string(unit.LSN.String())
	l.ordinal.int8(int64(i))
	l.op.string("snapshot")
	l.relation.string(unit.Relation.String())
	l.buf = append(row(append(l.buf[:0], `{"new":`...), unit.Relation, unit.Rows[i]), '}')
	l.payload.text(l.buf)
	if l.ordinal.length < runRows && len(l.payload.buf) < flushBytes {
		return nil
	}
	return t.flushLog()
}

func (t *tx) flushLog() error {
	l := &t.log
	if l.ordinal.length == 0 {
		return nil
	}
	t.args.reset()
	t.args.text(t.stream)
	t.args.number(int64(os.Getpid()))
	for _, a := range []*array{&l.commit, &l.ordinal, &l.op, &l.relation, &l.payload} {
		t.args.array(a)
	}
	t.args.bytea(l.run)
	if err := t.queue(logSQL); err != nil {
		return err
	}
	l.ordinal.length = 0
	return nil
}

// payload is a change as JSON: new and old are objects of the columns that are carried,
// values as text or null; unchanged and absent columns are listed by name.
//
//	{"new":{"id":"1","v":null},"old":{"id":"2"},"unchanged":["doc"]}
func payload(buf []byte, c *core.Change) []byte {
	buf = append(buf, '{')
	switch {
	case c.Message != nil:
		buf = member(buf, "prefix", c.Message.Prefix)
		buf = append(buf, `,"content":"`...)
		buf = hex.AppendEncode(buf, c.Message.Content)
		return append(buf, `"}`...)
	case c.Truncate != nil:
		buf = append(buf, `"relations":[`...)
		for i, r := range c.Truncate.Relations {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = quoteJSON(buf, []byte(r.String()))
		}
		return append(buf, `]}`...)
	}
	if !c.New.IsZero() {
		buf = row(append(buf, `"new":`...), c.Relation, c.New)
	}
	if !c.Old.IsZero() {
		if !c.New.IsZero() {
			buf = append(buf, ',')
		}
		buf = row(append(buf, `"old":`...), c.Relation, c.Old)
	}
	if !c.New.IsZero() && c.New.Has(core.ValueUnchanged) {
		buf = append(buf, `,"unchanged":[`...)
		first := true
		for i, v := range c.New.Values() {
			if v.Kind != core.ValueUnchanged {
				continue
			}
			if !first {
				buf = append(buf, ',')
			}
			first = false
			buf = quoteJSON(buf, []byte(c.Relation.Columns[i].Name))
		}
		buf = append(buf, ']')
	}
	return append(buf, '}')
}

func row(buf []byte, r *core.Relation, t core.Tuple) []byte {
	buf = append(buf, '{')
	first := true
	for i, v := range t.Values() {
		if v.Kind != core.ValueText && v.Kind != core.ValueNull {
			continue
		}
		if !first {
			buf = append(buf, ',')
		}
		first = false
		if v.Kind == core.ValueNull {
			buf = append(quoteJSON(buf, []byte(r.Columns[i].Name)), `:null`...)
			continue
		}
		buf = member(buf, r.Columns[i].Name, v.Text)
	}
	return append(buf, '}')
}

func member(buf []byte, name string, value []byte) []byte {
	buf = append(quoteJSON(buf, []byte(name)), ':')
	return quoteJSON(buf, value)
}

// quoteJSON appends text, which is valid UTF-8, as a JSON string.
func quoteJSON(buf, text []byte) []byte {
	const digits = "0123456789abcdef"
	buf = append(buf, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			buf = append(buf, '\\', c)
		case c < 0x20:
			buf = append(buf, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			buf = append(buf, c)
		}
	}
	return append(buf, '"')
}
