package cases_test

import (
	"fmt"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// model is a state mirror in its smallest form. It is strict: what a mirror in earnest
// would forgive, such as an insert of a key that is there, is a fault here.
type model struct {
	tables map[uint32]*mirror // by the relation's OID
}

// mirror is one table. A table without a replica identity, or whose identity is the
// whole row, keeps equal rows as often as they came.
type mirror struct {
	name string
	rows map[string][]row
}

// row is values by column name; nil is NULL.
type row map[string]*string

func newModel() *model { return &model{tables: map[uint32]*mirror{}} }

// apply replays one transaction.
func (m *model) apply(tx *core.Transaction) error {
	for i := range tx.Changes {
		if err := m.change(&tx.Changes[i]); err != nil {
			return fmt.Errorf("transaction that ends at %s, change %d: %w", tx.EndLSN, i, err)
		}
	}
	return nil
}

func (m *model) mirror(r *core.Relation) *mirror {
	t := m.tables[r.OID]
	if t == nil {
		t = &mirror{name: r.String(), rows: map[string][]row{}}
		m.tables[r.OID] = t
	}
	return t
}

func (m *model) change(c *core.Change) error {
	switch c.Op {
	case core.OpMessage:
		return nil
	case core.OpTruncate:
		for _, r := range c.Truncate.Relations {
			clear(m.mirror(r).rows)
		}
		return nil
	}
	t := m.mirror(c.Relation)
	var before row
	var err error
	if c.Op != core.OpInsert {
		if before, err = t.take(c); err != nil {
			return fmt.Errorf("%s of %s: %w", c.Op, t.name, err)
		}
	}
	if c.Op != core.OpDelete {
		if err = t.put(c, before); err != nil {
			return fmt.Errorf("%s of %s: %w", c.Op, t.name, err)
		}
	}
	return nil
}

// take removes the one row that an update or delete means.
func (t *mirror) take(c *core.Change) (row, error) {
	keyed := keyColumns(c.Relation)
	which := c.Old
	switch {
	case keyed == nil && c.OldKind != core.OldFull:
		return nil, fmt.Errorf("there is neither a key nor a whole old row")
	case c.Op == core.OpDelete && c.OldKind == core.OldNone:
		return nil, fmt.Errorf("there is no old row")
	case c.OldKind == core.OldNone:
		which = c.New // the key did not change
	}
	wanted, err := read(c.Relation, which, nil)
	if c.OldKind != core.OldFull {
		wanted, err = read(c.Relation, which, keyed)
	}
	if err != nil {
		return nil, err
	}
	key := keyOf(c.Relation, wanted)
	found := t.rows[key]
	if len(found) == 0 {
		return nil, fmt.Errorf("no such row")
	}
	before := found[len(found)-1]
	if t.rows[key] = found[:len(found)-1]; len(found) == 1 {
		delete(t.rows, key)
	}
	return before, nil
}

// put stores the new row; what is unchanged comes from the row before.
func (t *mirror) put(c *core.Change, before row) error {
	r := c.Relation
	now := row{}
	for i, v := range c.New.Values() {
		name := r.Columns[i].Name
		switch v.Kind {
		case core.ValueText:
			text := string(v.Text)
			now[name] = &text
		case core.ValueNull:
			now[name] = nil
		case core.ValueUnchanged:
			kept, known := before[name]
			if !known {
				return fmt.Errorf("column %q is unchanged, and was never told", name)
			}
			now[name] = kept
		default:
			return fmt.Errorf("column %q of a new row is of kind %q", name, byte(v.Kind))
		}
	}
	key := keyOf(r, now)
	if keyColumns(r) != nil && len(t.rows[key]) > 0 {
		return fmt.Errorf("the key is there already")
	}
	t.rows[key] = append(t.rows[key], now)
	return nil
}

// keyColumns are the columns of the replica identity; nil where it is the whole row, or
// there is none.
func keyColumns(r *core.Relation) map[string]bool {
	if r.Identity == core.IdentityFull {
		return nil
	}
	var key map[string]bool
	for i := range r.Columns {
		if r.Columns[i].Identity {
			if key == nil {
				key = map[string]bool{}
			}
			key[r.Columns[i].Name] = true
		}
	}
	return key
}

// read takes the values of the wanted columns out of an image; nil wants all.
func read(r *core.Relation, t core.Tuple, wanted map[string]bool) (row, error) {
	out := row{}
	for i, v := range t.Values() {
		name := r.Columns[i].Name
		switch {
		case wanted != nil && !wanted[name]:
		case v.Kind == core.ValueText:
			text := string(v.Text)
			out[name] = &text
		case v.Kind == core.ValueNull:
			out[name] = nil
		default:
			return nil, fmt.Errorf("column %q, which says what row is meant, is of kind %q", name, byte(v.Kind))
		}
	}
	return out, nil
}

// keyOf is the key's values of a row, or all values where there is no key.
func keyOf(r *core.Relation, values row) string {
	key := keyColumns(r)
	var names []string
	for i := range r.Columns {
		if name := r.Columns[i].Name; key == nil || key[name] {
			names = append(names, name)
		}
	}
	return line(names, values)
}

// line is a row as one string that no other row has.
func line(names []string, values row) string {
	var b strings.Builder
	for _, name := range names {
		if text := values[name]; text != nil {
			fmt.Fprintf(&b, "%d:%s,", len(*text), *text)
		} else {
			b.WriteString("null,")
		}
	}
	return b.String()
}
