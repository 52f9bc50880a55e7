package testsink

import (
	"slices"
	"strconv"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// target is a relation as it is written: the table, and which of the relation's columns
// are the table's key.
type target struct {
	relation *core.Relation
	table    string   // quoted
	columns  []string // quoted, in the relation's order
	key      []int    // indices of columns, in their order; none: equal rows may repeat
	inKey    []bool
	marked   bool // rows carry origin and generation
	strict   bool // rows with a column that is not known are left out
	place    *place
	sql      map[string]string
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func tableOf(r *core.Relation) string { return quote(r.Schema) + "." + quote(r.Name) }

// keyOf is what rows are found by: the replica identity, or, where that is everything or
// nothing, the primary key.
func keyOf(r *core.Relation) []string {
	whole := r.Identity == core.IdentityFull || r.Identity == core.IdentityNothing
	var key []string
	for i := range r.Columns {
		c := &r.Columns[i]
		if whole && c.PrimaryKeyPosition > 0 || !whole && c.Identity {
			key = append(key, c.Name)
		}
	}
	return key
}

// target finds the table of a relation, makes it, or adds columns that are new.
func (t *tx) target(r *core.Relation) (*target, error) {
	generation, err := t.generationNow()
	if err != nil {
		return nil, err
	}
	if known := t.session.targets[r]; known != nil && (known.marked || generation == 0) {
		return known, nil
	}
	if err := t.flush(); err != nil {
		return nil, err
	}
	table := tableOf(r)
	now, err := t.shape(table)
	if err != nil {
		return nil, err
	}
	if now, err = t.fit(table, r, now); err != nil {
		return nil, err
	}
	if generation > 0 && !now.marked {
		now.marked = true
		if err := t.define(addMarks(table)); err != nil {
			return nil, err
		}
	}
	made := &target{
		relation: r, table: table, inKey: make([]bool, len(r.Columns)), sql: map[string]string{},
		marked: now.marked, strict: t.store.config.IgnoreHoles,
	}
	keys := 0
	for i := range r.Columns {
		name := r.Columns[i].Name
		made.columns = append(made.columns, quote(name))
		if slices.Contains(now.key, name) {
			made.key, made.inKey[i] = append(made.key, i), true
			keys++
		}
	}
	if keys != len(now.key) {
		return nil, &core.Refusal{Reason: core.ReasonUnitRejected, Text: "the mirror's key is not among the streamed columns"}
	}
	if made.place = t.session.places[table]; made.place == nil {
		made.place = &place{}
		t.session.places[table] = made.place
	}
	t.session.targets[r] = made
	return made, nil
}

// shape is a table of the destination as its catalog has it.
type shape struct {
	exists, marked bool
	columns, key   []string
}

const shapeSQL = `SELECT r.oid IS NOT NULL, a.attname, EXISTS (SELECT FROM pg_index i
	WHERE i.indrelid = r.oid AND i.indisprimary AND a.attnum = ANY (i.indkey::int2[]))
FROM (SELECT to_regclass($1) AS oid) r LEFT JOIN pg_attribute a
ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`

func (t *tx) shape(table string) (s shape, err error) {
	t.args.reset()
	t.args.text(table)
	rows, err := t.ask(shapeSQL)
	for _, row := range rows {
		s.exists = string(row[0]) == "t"
		if row[1] == nil {
			continue
		}
		if isMark(string(row[1])) {
			s.marked = true
			continue
		}
		s.columns = append(s.columns, string(row[1]))
		if string(row[2]) == "t" {
			s.key = append(s.key, string(row[1]))
		}
	}
	return s, err
}

// fit makes the table, its missing columns, and a key where there was none. It takes
// nothing away: that needs a schema change.
func (t *tx) fit(table string, r *core.Relation, now shape) (shape, error) {
	key := keyOf(r)
	if !now.exists {
		return shape{exists: true, key: key}, t.create(table, r, key)
	}
	for i := range r.Columns {
		if name := r.Columns[i].Name; !slices.Contains(now.columns, name) {
			if err := t.define(`ALTER TABLE ` + table + ` ADD COLUMN ` + quote(name) + ` text`); err != nil {
				return now, err
			}
		}
	}
	if len(now.key) == 0 && len(key) > 0 {
		now.key = key
		return now, t.define(`ALTER TABLE ` + table + ` ADD PRIMARY KEY (` + names(key) + `)`)
	}
	return now, nil
}

func (t *tx) create(table string, r *core.Relation, key []string) error {
	var parts []string
	for i := range r.Columns {
		parts = append(parts, quote(r.Columns[i].Name)+" text")
	}
	if len(key) > 0 {
		parts = append(parts, "PRIMARY KEY ("+names(key)+")")
	}
	if err := t.define(`CREATE SCHEMA IF NOT EXISTS ` + quote(r.Schema)); err != nil {
		return err
	}
	return t.define(`CREATE TABLE ` + table + ` (` + strings.Join(parts, ", ") + `)`)
}

// define runs DDL, which counts when the transaction commits.
func (t *tx) define(sql string) error {
	t.ddl = true
	t.args.reset()
	_, err := t.ask(sql)
	return err
}

func names(list []string) string {
	quoted := make([]string, len(list))
	for i, name := range list {
		quoted[i] = quote(name)
	}
	return strings.Join(quoted, ", ")
}

// parameter is "$n".
func parameter(n int) string { return "$" + strconv.Itoa(n) }
