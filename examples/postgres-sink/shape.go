package main

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/sdk/go/mirror"
)

// keyPrefix begins the names of our unique indexes.
const keyPrefix = "replicant_key_"

// table makes the destination's table fit the relation: same schema, name and columns, all of
// type text, so that a value is kept as Postgres printed it. Columns that the source lost
// stay, with what they hold.
func (t *tx) table(r *core.Relation) (*mirror.Table, error) {
	table := mirror.New(mirror.Postgres(), r, mirror.Options{})
	name := mirror.Quote(r.Schema) + "." + mirror.Quote(r.Name)
	var columns []string
	for i := range r.Columns {
		columns = append(columns, mirror.Quote(r.Columns[i].Name)+" text")
	}
	columns = append(columns, table.Marks()...)
	key := strings.Join(table.Key(), ", ")
	shape := strings.Join(columns, ", ") + " (" + key + ")"
	if t.known(name) == shape {
		return table, nil
	}
	statements := []string{
		definitions,
		"CREATE SCHEMA IF NOT EXISTS " + mirror.Quote(r.Schema),
		"CREATE TABLE IF NOT EXISTS " + name + " ()",
		"ALTER TABLE " + name + " ADD COLUMN IF NOT EXISTS " + strings.Join(columns, ", ADD COLUMN IF NOT EXISTS "),
	}
	for _, sql := range statements {
		if err := t.exec(sql); err != nil {
			return nil, err
		}
	}
	t.shapes[name] = shape
	return table, t.key(r.Schema, name, key)
}

// known is the shape that a table has, as far as we know.
func (t *tx) known(name string) string {
	if shape, mine := t.shapes[name]; mine {
		return shape
	}
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	return t.store.shapes[name]
}

// key makes the unique index over the key, and removes that of a key which it was before.
func (t *tx) key(schema, table, key string) error {
	wanted := fmt.Sprintf("%s%x", keyPrefix, sha256.Sum256([]byte(table+key)))[:60]
	found, err := t.pg.Query(t.ctx, `SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		WHERE i.indrelid = to_regclass($1) AND starts_with(c.relname, $2) AND c.relname <> $3`, table, keyPrefix, wanted)
	if err != nil {
		return refusal(err)
	}
	var old []string
	for found.Next() {
		var name string
		if err := found.Scan(&name); err != nil {
			return err
		}
		old = append(old, name)
	}
	if err := found.Err(); err != nil {
		return refusal(err)
	}
	for _, name := range old {
		if err := t.exec("DROP INDEX " + mirror.Quote(schema) + "." + mirror.Quote(name)); err != nil {
			return err
		}
	}
	if key == "" {
		return nil
	}
	return t.exec("CREATE UNIQUE INDEX IF NOT EXISTS " + wanted + " ON " + table + " (" + key + ")")
}
