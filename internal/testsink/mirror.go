package testsink

import (
	"bytes"
	"slices"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// mirror does one change to the tables of the same names (docs/protocol.md, S-401 to
// S-406).
func (t *tx) mirror(c *core.Change) error {
	if c.Op == core.OpTruncate {
		return t.truncate(c.Truncate)
	}
	g, err := t.target(c.Relation)
	if err != nil {
		return err
	}
	switch c.Op {
	case core.OpInsert:
		return t.put(g, runStream, c.New)
	case core.OpUpdate:
		return t.update(g, c)
	}
	if len(g.key) == 0 {
		return t.deleteOne(g, c.Old)
	}
	return t.put(g, runDelete, c.Old)
}

func (t *tx) update(g *target, c *core.Change) error {
	if len(g.key) == 0 {
		return t.updateOne(g, c)
	}
	if c.OldKind == core.OldNone {
		return t.put(g, runStream, c.New)
	}
	row, moved := g.withKey(c)
	if !moved {
		return t.put(g, runStream, row)
	}
	return t.move(g, c.Old, row)
}

// withKey fills key columns that are unchanged TOAST from the old row, and tells whether
// the key is another one.
func (g *target) withKey(c *core.Change) (row core.Tuple, moved bool) {
	values := make([]core.Value, 0, c.New.Len())
	old := make([]core.Value, 0, c.Old.Len())
	for _, v := range c.Old.Values() {
		old = append(old, v)
	}
	filled := false
	for i, v := range c.New.Values() {
		if g.inKey[i] {
			if v.Kind == core.ValueUnchanged && i < len(old) {
				v, filled = old[i], true
			}
			moved = moved || i >= len(old) || !bytes.Equal(v.Text, old[i].Text)
		}
		values = append(values, v)
	}
	if !filled {
		return c.New, moved
	}
	return core.PackTuple(values...), moved
}

// move takes the row at the old key away and stores the new one. Columns that are not
// carried come from the old key's row; if there is none, from the row at the new key.
func (t *tx) move(g *target, from, to core.Tuple) error {
	if err := t.flushPlace(g.place); err != nil {
		return err
	}
	mask := maskOf(to)
	t.args.reset()
	for i, v := range from.Values() {
		if g.inKey[i] {
			if v.Kind != core.ValueText {
				return errNoKey
			}
			t.args.value(v)
		}
	}
	for i, v := range to.Values() {
		if carried(mask, i) {
			t.args.value(v)
		}
	}
	t.markArg(g)
	return t.queue(g.moveSQL(mask))
}

func (g *target) moveSQL(mask string) string {
	name := "move " + mask
	if sql := g.sql[name]; sql != "" {
		return sql
	}
	n := 0
	next := func() string { n++; return parameter(n) + "::text" }
	var where, values []string
	for i, column := range g.columns {
		if g.inKey[i] {
			where = append(where, column+" = "+next())
		}
	}
	for i, column := range g.columns {
		if carried(mask, i) {
			values = append(values, next())
		} else {
			values = append(values, "(SELECT o."+column+" FROM o)")
		}
	}
	columns, known := g.columns, ""
	if g.strict && mask != "" {
		known = " WHERE EXISTS (SELECT FROM o) OR EXISTS (SELECT FROM " + g.table + " n WHERE " + g.sameKey("n", values) + ")"
	}
	if g.marked {
		columns, values = append(slices.Clone(columns), markNames()...), append(values, "false", parameter(n+1)+"::bigint")
	}
	sql := "WITH o AS (DELETE FROM " + g.table + " WHERE " + strings.Join(where, " AND ") + " RETURNING *) INSERT INTO " +
		g.table + " AS t (" + strings.Join(columns, ", ") + ") SELECT " + strings.Join(values, ", ") + known +
		g.onConflict(runStream, mask, "CASE WHEN EXISTS (SELECT FROM o) THEN EXCLUDED.? ELSE t.? END")
	g.sql[name] = sql
	return sql
}

// one is the condition for exactly one of the rows that equal the old one, and its
// parameters.
func (t *tx) one(g *target, old core.Tuple) (string, error) {
	var same []string
	for i, v := range old.Values() {
		if v.Kind != core.ValueText && v.Kind != core.ValueNull {
			return "", errNoKey
		}
		t.args.value(v)
		same = append(same, g.columns[i]+" IS NOT DISTINCT FROM "+parameter(len(t.args.values))+"::text")
	}
	if len(same) == 0 {
		same = append(same, "true")
	}
	return "ctid = (SELECT ctid FROM " + g.table + " WHERE " + strings.Join(same, " AND ") + " LIMIT 1)", nil
}

func (t *tx) deleteOne(g *target, old core.Tuple) error {
	if err := t.flushPlace(g.place); err != nil {
		return err
	}
	t.args.reset()
	where, err := t.one(g, old)
	if err != nil {
		return err
	}
	return t.queue("DELETE FROM " + g.table + " WHERE " + where)
}

// updateOne changes one equal row of a table without a key, and stores the row if there
// is none.
func (t *tx) updateOne(g *target, c *core.Change) error {
	if c.OldKind != core.OldFull {
		return errNoKey
	}
	if err := t.flushPlace(g.place); err != nil {
		return err
	}
	if len(g.columns) == 0 {
		return nil
	}
	t.args.reset()
	where, err := t.one(g, c.Old)
	if err != nil {
		return err
	}
	var columns, sets, values []string
	for i, v := range c.New.Values() {
		if v.Kind != core.ValueText && v.Kind != core.ValueNull {
			continue
		}
		t.args.value(v)
		place := parameter(len(t.args.values)) + "::text"
		columns, values = append(columns, g.columns[i]), append(values, place)
		sets = append(sets, g.columns[i]+" = "+place)
	}
	if g.marked {
		t.markArg(g)
		place := parameter(len(t.args.values)) + "::bigint"
		columns, values = append(columns, markNames()...), append(values, "false", place)
		sets = append(sets, markOrigin+" = false", markGeneration+" = "+place)
	}
	return t.queue("WITH u AS (UPDATE " + g.table + " SET " + strings.Join(sets, ", ") + " WHERE " + where + " RETURNING 1) INSERT INTO " +
		g.table + " (" + strings.Join(columns, ", ") + ") SELECT " + strings.Join(values, ", ") + " WHERE NOT EXISTS (SELECT FROM u)")
}

// truncate deletes every row. TRUNCATE itself would show an empty table to readers of an
// older snapshot, and samples are taken while we write.
func (t *tx) truncate(c *core.Truncate) error {
	for _, relation := range c.Relations {
		g, err := t.target(relation)
		if err != nil {
			return err
		}
		if err := t.flushPlace(g.place); err != nil {
			return err
		}
		t.args.reset()
		if err := t.queue("DELETE FROM " + g.table); err != nil {
			return err
		}
	}
	return nil
}
