package testsink

import (
	"slices"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// ApplySchemaChange brings the mirror's table to the new shape. It compares with what the
// table is, so that a change which is told again does nothing. A type change needs
// nothing, since every column is text. What the source did to the rows that were there,
// a default or a cast, the stream does not tell.
func (s *Store) ApplySchemaChange(in sink.StoreTx, change *core.SchemaChange) error {
	t := in.(*tx)
	if s.config.DeclineDestructive && change.Kind == core.SchemaDestructive {
		return &core.Refusal{Reason: core.ReasonSchemaDeclined, Text: "declined on request"}
	}
	if !s.config.Kind.mirror() {
		return nil
	}
	if err := t.flush(); err != nil {
		return err
	}
	table := tableOf(change.After)
	now, err := t.shape(table)
	if err != nil {
		return err
	}
	if change.Before != nil && !now.exists {
		if now, err = t.rename(change.Before, change.After); err != nil {
			return err
		}
	}
	if !now.exists {
		return nil // made with its first row
	}
	if err := t.reshape(table, change.After, now); err != nil {
		return err
	}
	t.session.forget()
	return nil
}

// rename gives the table of the old name the new one.
func (t *tx) rename(from, to *core.Relation) (shape, error) {
	old, err := t.shape(tableOf(from))
	if err != nil || !old.exists || tableOf(from) == tableOf(to) {
		return shape{}, err
	}
	if from.Schema != to.Schema {
		if err := t.define(`CREATE SCHEMA IF NOT EXISTS ` + quote(to.Schema)); err != nil {
			return old, err
		}
		if err := t.define(`ALTER TABLE ` + tableOf(from) + ` SET SCHEMA ` + quote(to.Schema)); err != nil {
			return old, err
		}
	}
	if from.Name == to.Name {
		return old, nil
	}
	return old, t.define(`ALTER TABLE ` + quote(to.Schema) + "." + quote(from.Name) + ` RENAME TO ` + quote(to.Name))
}

// reshape drops what is gone, adds what is new, and sets the key.
func (t *tx) reshape(table string, r *core.Relation, now shape) error {
	key := keyOf(r)
	if !same(now.key, key) && len(now.key) > 0 {
		if err := t.dropKey(table, now.key); err != nil {
			return err
		}
		now.key = nil
	}
	streamed := func(name string) bool {
		return slices.ContainsFunc(r.Columns, func(c core.Column) bool { return c.Name == name })
	}
	for _, name := range now.columns {
		if !streamed(name) {
			if err := t.define(`ALTER TABLE ` + table + ` DROP COLUMN ` + quote(name)); err != nil {
				return err
			}
		}
	}
	_, err := t.fit(table, r, now)
	return err
}

func (t *tx) dropKey(table string, key []string) error {
	t.args.reset()
	t.args.text(table)
	rows, err := t.ask(`SELECT conname FROM pg_constraint WHERE conrelid = to_regclass($1) AND contype = 'p'`)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := t.define(`ALTER TABLE ` + table + ` DROP CONSTRAINT ` + quote(string(row[0]))); err != nil {
			return err
		}
	}
	for _, name := range key {
		if err := t.define(`ALTER TABLE ` + table + ` ALTER COLUMN ` + quote(name) + ` DROP NOT NULL`); err != nil {
			return err
		}
	}
	return nil
}

// same compares two keys as sets.
func same(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for _, name := range a {
		if !slices.Contains(b, name) {
			return false
		}
	}
	return true
}
