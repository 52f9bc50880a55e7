package mirror

import (
	"strconv"
	"strings"
)

// Dialect is how a store's SQL differs from that of others. All of them need INSERT ...
// ON CONFLICT ... DO UPDATE.
type Dialect struct {
	// Parameter is the n-th parameter of a statement, from 1.
	Parameter func(n int) string
	// Same compares two values of which either may be NULL.
	Same string
	// RowID names the row in tables without a key.
	RowID string
	// Bool and Number are the types of the two marks.
	Bool, Number string
}

// Postgres has parameters as $1.
func Postgres() Dialect {
	return Dialect{
		Parameter: func(n int) string { return "$" + strconv.Itoa(n) },
		Same:      "IS NOT DISTINCT FROM", RowID: "ctid", Bool: "boolean", Number: "bigint",
	}
}

// SQLite has parameters as ?1. Its columns should have no type, so that it converts
// nothing.
func SQLite() Dialect {
	return Dialect{
		Parameter: func(n int) string { return "?" + strconv.Itoa(n) },
		Same:      "IS", RowID: "_rowid_", Bool: "boolean", Number: "bigint",
	}
}

// Quote is a name as an identifier of SQL.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Holes says what becomes of a row of the stream that is not known yet and of which a
// column was not carried.
type Holes uint8

// The two lawful ways.
const (
	// StoreHoles stores it with NULL in that column.
	StoreHoles Holes = iota
	// IgnoreHoles leaves it out; for columns that are NOT NULL.
	IgnoreHoles
)

// Statement is one statement and its arguments.
type Statement struct {
	SQL  string
	Args []any
}

// builder numbers parameters as they are used.
type builder struct {
	dialect Dialect
	sql     strings.Builder
	args    []any
}

func (b *builder) text(parts ...string) *builder {
	for _, part := range parts {
		b.sql.WriteString(part)
	}
	return b
}

func (b *builder) arg(value any) *builder {
	b.args = append(b.args, value)
	b.sql.WriteString(b.dialect.Parameter(len(b.args)))
	return b
}

func (b *builder) done() Statement { return Statement{b.sql.String(), b.args} }
