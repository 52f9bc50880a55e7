package testsink

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// A run is at most so long; see flushBytes for its size.
const runRows = 1000

// runKind is what a run's rows are.
type runKind uint8

const (
	runStream runKind = iota // upserts of the stream
	runDelete
	runCopy // whole rows of a snapshot
)

// place is a table with the rows that wait to be written to it: one run, all upserts
// that carry the same columns, or all deletes, or all rows of a snapshot. Tables have no order among each other
// inside of a transaction, but each has its own.
type place struct {
	open, listed bool
	target       *target
	kind         runKind
	mask         string // what is not carried, see maskOf
	rows         []core.Tuple
	at           map[string]int // key to row, in tables with one
	bytes        int
	arrays       []array
}

// maskOf is "" when every column is carried, else 'c' or '-' for each.
func maskOf(row core.Tuple) string {
	kinds := row.Kinds()
	if bytes.IndexByte(kinds, byte(core.ValueUnchanged)) < 0 && bytes.IndexByte(kinds, byte(core.ValueAbsent)) < 0 {
		return ""
	}
	mask := make([]byte, len(kinds))
	for i, kind := range kinds {
		mask[i] = '-'
		if core.ValueKind(kind) == core.ValueText || core.ValueKind(kind) == core.ValueNull {
			mask[i] = 'c'
		}
	}
	return string(mask)
}

func carried(mask string, column int) bool { return mask == "" || mask[column] == 'c' }

var errNoKey = &core.Refusal{Reason: core.ReasonUnitRejected, Text: "a row came without the mirror's key"}

// keyBytes is the row's key, columns with their lengths.
func (g *target) keyBytes(buf []byte, row core.Tuple) ([]byte, error) {
	for i, v := range row.Values() {
		if !g.inKey[i] {
			continue
		}
		if v.Kind != core.ValueText {
			return nil, errNoKey
		}
		buf = binary.AppendUvarint(buf, uint64(len(v.Text)))
		buf = append(buf, v.Text...)
	}
	return buf, nil
}

// put adds a row to the run of its table. Within a run the last state of a key wins.
func (t *tx) put(g *target, kind runKind, row core.Tuple) error {
	p, mask := g.place, ""
	if kind != runDelete {
		mask = maskOf(row)
	}
	if p.open && (p.target != g || p.kind != kind || p.mask != mask) {
		if err := t.flushPlace(p); err != nil {
			return err
		}
	}
	if !p.open {
		t.openRun(p, g, kind, mask)
	}
	if len(g.key) > 0 {
		var scratch [64]byte
		key, err := g.keyBytes(scratch[:0], row)
		if err != nil {
			return err
		}
		if at, known := p.at[string(key)]; known {
			p.rows[at] = row
			return nil
		}
		p.at[string(key)] = len(p.rows)
	}
	p.rows = append(p.rows, row)
	p.bytes += len(row.Packed())
	if len(p.rows) >= runRows || p.bytes >= flushBytes {
		return t.flushPlace(p)
	}
	return nil
}

func (t *tx) openRun(p *place, g *target, kind runKind, mask string) {
	p.open, p.target, p.kind, p.mask, p.bytes = true, g, kind, mask, 0
	p.rows = p.rows[:0]
	if p.at == nil {
		p.at = map[string]int{}
	}
	clear(p.at)
	if !p.listed {
		p.listed = true
		t.runs = append(t.runs, p)
	}
}

// flush queues all rows that wait.
func (t *tx) flush() error {
	for _, p := range t.runs {
		if err := t.flushPlace(p); err != nil {
			return err
		}
		p.listed = false
	}
	t.runs = t.runs[:0]
	return t.flushLog()
}

// flushPlace queues the run of one table as one statement over arrays.
func (t *tx) flushPlace(p *place) error {
	if !p.open {
		return nil
	}
	p.open = false
	g := p.target
	if len(g.columns) == 0 {
		return t.flushBare(p)
	}
	wanted := func(i int) bool { return carried(p.mask, i) }
	if p.kind == runDelete {
		wanted = func(i int) bool { return g.inKey[i] }
	}
	for len(p.arrays) < len(g.columns) {
		p.arrays = append(p.arrays, array{})
	}
	for i := range g.columns {
		p.arrays[i].start(oidText)
	}
	for _, row := range p.rows {
		for i, v := range row.Values() {
			switch {
			case !wanted(i):
			case v.Kind == core.ValueText:
				p.arrays[i].text(v.Text)
			default:
				p.arrays[i].null()
			}
		}
	}
	t.args.reset()
	for i := range g.columns {
		if wanted(i) {
			t.args.array(&p.arrays[i])
		}
	}
	if p.kind != runDelete {
		t.markArg(g)
	}
	return t.queue(g.runSQL(p.kind, p.mask))
}

// flushBare inserts into a table without columns.
func (t *tx) flushBare(p *place) error {
	for range p.rows {
		t.args.reset()
		sql := `INSERT INTO ` + p.target.table + ` DEFAULT VALUES`
		if p.target.marked {
			t.markArg(p.target)
			sql = `INSERT INTO ` + p.target.table + ` (` + strings.Join(markNames(), ", ") + `) VALUES (` + p.kind.origin() + `, $1)`
		}
		if err := t.queue(sql); err != nil {
			return err
		}
	}
	return nil
}

// runSQL is the statement of a run: one array a column that is wanted.
func (g *target) runSQL(kind runKind, mask string) string {
	name := [...]string{runStream: "", runDelete: "delete", runCopy: "copy"}[kind] + mask
	if sql := g.sql[name]; sql != "" {
		return sql
	}
	var arrays, picked, same []string
	for i, column := range g.columns {
		if kind == runDelete && !g.inKey[i] || !carried(mask, i) {
			continue
		}
		arrays = append(arrays, parameter(len(arrays)+1)+"::text[]")
		picked = append(picked, column)
		same = append(same, "t."+column+" = k.k"+parameter(len(arrays))[1:])
	}
	from := "unnest(" + strings.Join(arrays, ", ") + ")"
	var sql string
	switch {
	case kind == runDelete:
		aliases := make([]string, len(same))
		for i := range same {
			aliases[i] = "k" + parameter(i + 1)[1:]
		}
		sql = "DELETE FROM " + g.table + " t USING " + from + " k(" + strings.Join(aliases, ", ") + ") WHERE " + strings.Join(same, " AND ")
	case g.strict && mask != "" && len(g.key) > 0:
		sql = g.updateKnown(from, picked, mask)
	case g.marked:
		sql = "INSERT INTO " + g.table + " AS t (" + strings.Join(append(picked, markNames()...), ", ") + ") SELECT u.*, " +
			kind.origin() + ", " + parameter(len(arrays)+1) + "::bigint FROM " + from + " u" + g.onConflict(kind, mask, "")
	default:
		sql = "INSERT INTO " + g.table + " AS t (" + strings.Join(picked, ", ") + ") SELECT * FROM " + from + g.onConflict(kind, mask, "")
	}
	g.sql[name] = sql
	return sql
}

// onConflict makes an insert an upsert: columns that are carried are replaced, the
// others keep what they have, or become kept, an expression over the column's name.
func (g *target) onConflict(kind runKind, mask, kept string) string {
	if len(g.key) == 0 {
		return ""
	}
	var keys, sets []string
	for i, column := range g.columns {
		switch {
		case g.inKey[i]:
			keys = append(keys, column)
		case carried(mask, i):
			sets = append(sets, column+" = EXCLUDED."+column)
		case kept != "":
			sets = append(sets, column+" = "+strings.ReplaceAll(kept, "?", column))
		}
	}
	if g.marked {
		sets = append(sets, g.touched(kind)...)
	}
	into := " ON CONFLICT (" + strings.Join(keys, ", ") + ") DO "
	if len(sets) == 0 {
		return into + "NOTHING"
	}
	return into + "UPDATE SET " + strings.Join(sets, ", ")
}
