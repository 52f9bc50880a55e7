package chunks

import (
	"context"
	"strconv"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// keyColumn is a column of the key with the operators by which Postgres sorts its type. An
// unqualified operator would be looked for on the search path, which is pinned: for a type
// of an extension it could find another type's, with another order.
type keyColumn struct {
	name, typ               string // quoted
	less, most, equal, more string // <, <=, =, >
	builtin                 bool
	oid                     uint32 // of the type
}

// columns asks for the default order of each key column's type: that of its own operator
// class, or of the built-in one that it falls back to.
func (r *Reader) columns(ctx context.Context, t *snapshot.Table) ([]keyColumn, error) {
	if known := r.keys[t.KeyIndex]; known != nil && sameColumns(known, t) {
		return known, nil
	}
	var columns []keyColumn
	for _, i := range t.Key {
		c := t.Relation.Columns[i]
		oid := strconv.FormatUint(uint64(c.TypeOID), 10)
		rows, err := r.rows(ctx, `WITH RECURSIVE base AS (SELECT oid, typbasetype FROM pg_catalog.pg_type WHERE oid = `+oid+`
 UNION ALL SELECT t.oid, t.typbasetype FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.typbasetype)
SELECT a.amopstrategy, n.nspname, o.oprname FROM base b
JOIN pg_catalog.pg_opclass c ON c.opcintype = b.oid AND c.opcdefault AND c.opcmethod = (SELECT oid FROM pg_catalog.pg_am WHERE amname = 'btree')
JOIN pg_catalog.pg_amop a ON a.amopfamily = c.opcfamily AND a.amoplefttype = c.opcintype AND a.amoprighttype = c.opcintype
JOIN pg_catalog.pg_operator o ON o.oid = a.amopopr JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
WHERE b.typbasetype = 0`)
		if err != nil {
			return nil, err
		}
		name, err := r.one(ctx, `SELECT n.nspname, t.typname FROM pg_catalog.pg_type t
 JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE t.oid = `+oid, 2)
		if err != nil {
			return nil, err
		}
		k := keyColumn{
			name: snapshot.QuoteIdentifier(c.Name),
			typ:  snapshot.QuoteIdentifier(name[0]) + "." + snapshot.QuoteIdentifier(name[1]),
			less: "OPERATOR(pg_catalog.<)", most: "OPERATOR(pg_catalog.<=)", equal: "OPERATOR(pg_catalog.=)", more: "OPERATOR(pg_catalog.>)",
			builtin: true, oid: c.TypeOID,
		}
		for _, row := range rows {
			into := map[string]*string{"1": &k.less, "2": &k.most, "3": &k.equal, "5": &k.more}[row[0]]
			if into != nil {
				*into = "OPERATOR(" + snapshot.QuoteIdentifier(row[1]) + "." + row[2] + ")"
				k.builtin = k.builtin && row[1] == "pg_catalog"
			}
		}
		columns = append(columns, k)
	}
	r.keys[t.KeyIndex] = columns
	return columns, nil
}

func sameColumns(known []keyColumn, t *snapshot.Table) bool {
	if len(known) != len(t.Key) {
		return false
	}
	for at, i := range t.Key {
		if c := &t.Relation.Columns[i]; known[at].oid != c.TypeOID || known[at].name != snapshot.QuoteIdentifier(c.Name) {
			return false
		}
	}
	return true
}

// order is the list of the key behind ORDER BY.
func order(columns []keyColumn) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return strings.Join(names, ", ")
}

func (c keyColumn) value(text string) string { return snapshot.QuoteLiteral(text) + "::" + c.typ }

// above is (key) > bound and upTo is (key) <= bound, as the key is sorted.
func above(columns []keyColumn, bound incremental.Key) string { return compared(columns, bound, true) }
func upTo(columns []keyColumn, bound incremental.Key) string  { return compared(columns, bound, false) }

func compared(columns []keyColumn, bound incremental.Key, up bool) string {
	builtin := true
	var names, values []string
	for i, c := range columns {
		builtin = builtin && c.builtin
		names, values = append(names, c.name), append(values, c.value(bound[i]))
	}
	sign := "OPERATOR(pg_catalog.<=)"
	if up {
		sign = "OPERATOR(pg_catalog.>)"
	}
	if builtin {
		return "ROW(" + strings.Join(names, ", ") + ") " + sign + " ROW(" + strings.Join(values, ", ") + ")"
	}
	// Column by column: one row comparison knows one name of an operator alone.
	text := ""
	for i := len(columns) - 1; i >= 0; i-- {
		c := columns[i]
		beyond := c.less
		if up {
			beyond = c.more
		}
		at := c.name + " " + beyond + " " + values[i]
		switch {
		case text != "":
			text = "(" + at + " OR " + c.name + " " + c.equal + " " + values[i] + " AND " + text + ")"
		case up:
			text = at
		default:
			text = c.name + " " + c.most + " " + values[i]
		}
	}
	return text
}

// among is (key) = any of the list.
func among(columns []keyColumn, keys []incremental.Key) string {
	any := make([]string, len(keys))
	for i, key := range keys {
		all := make([]string, len(columns))
		for at, c := range columns {
			all[at] = c.name + " " + c.equal + " " + c.value(key[at])
		}
		any[i] = strings.Join(all, " AND ")
	}
	return "(" + strings.Join(any, " OR ") + ")"
}
