package wal

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// typeFacts is what is told of a type beside its OID.
type typeFacts struct {
	name          string
	base, element uint32
}

// Describe fills TypeName, BaseTypeOID, ElementTypeOID and PrimaryKeyPosition of a
// relation that was not handed on yet. Types are remembered by OID; a primary key is
// asked for each time. What cannot be told stays zero: an error means no more than
// that, is never a halt, and ctx should bound the call to about a second.
func (c *Catalog) Describe(ctx context.Context, relation *core.Relation) error {
	var failed error
	err := c.types.use(ctx, func(pg *pgconn.PgConn) error {
		failed = c.learnTypes(ctx, pg, relation.Columns)
		for i := range relation.Columns {
			column := &relation.Columns[i]
			if facts, ok := c.known[column.TypeOID]; ok {
				column.TypeName, column.BaseTypeOID, column.ElementTypeOID = facts.name, facts.base, facts.element
			}
		}
		if failed == nil {
			failed = describeKey(ctx, pg, relation)
		}
		return nil
	})
	if err == nil {
		err = failed
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// Not wrapped: whatever it is, it must not be taken for a halt.
	return fmt.Errorf("the catalog did not describe relation %d", relation.OID)
}

// learnTypes asks for the types that are not known yet, all at once.
func (c *Catalog) learnTypes(ctx context.Context, pg *pgconn.PgConn, columns []core.Column) error {
	var unknown []uint32
	for i := range columns {
		if _, ok := c.known[columns[i].TypeOID]; !ok {
			unknown = append(unknown, columns[i].TypeOID)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	// A domain's base is followed down to what is no domain. typelem also serves other
	// types than arrays (point, name); an array is what its element calls its array.
	rows, err := simpleQuery(ctx, pg, `WITH RECURSIVE base AS (
 SELECT oid, oid AS top, typbasetype FROM pg_catalog.pg_type WHERE oid IN (`+joinNumbers(unknown)+`)
 UNION ALL SELECT t.oid, b.top, t.typbasetype FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.typbasetype)
SELECT t.oid, pg_catalog.format_type(t.oid, NULL),
 coalesce((SELECT b.oid FROM base b WHERE b.top = t.oid AND b.typbasetype = 0 AND b.oid <> t.oid), 0),
 coalesce((SELECT e.oid FROM pg_catalog.pg_type e WHERE e.oid = t.typelem AND e.typarray = t.oid), 0)
FROM pg_catalog.pg_type t WHERE t.oid IN (`+joinNumbers(unknown)+`)`)
	if err != nil {
		return err
	}
	for _, row := range rows {
		var numbers [3]uint32
		for i, text := range []string{row[0], row[2], row[3]} {
			n, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				return err
			}
			numbers[i] = uint32(n)
		}
		c.known[numbers[0]] = typeFacts{name: row[1], base: numbers[1], element: numbers[2]}
	}
	return nil
}

// describeKey numbers the columns of the primary key, by name, since the stream tells
// no column numbers. The catalog shows today's key, which may be newer than the stream.
func describeKey(ctx context.Context, pg *pgconn.PgConn, relation *core.Relation) error {
	rows, err := simpleQuery(ctx, pg, `SELECT a.attname, k.place
FROM pg_catalog.pg_index i, pg_catalog.unnest(i.indkey) WITH ORDINALITY AS k (attnum, place),
 pg_catalog.pg_attribute a
WHERE i.indrelid = `+strconv.FormatUint(uint64(relation.OID), 10)+` AND i.indisprimary AND k.place <= i.indnkeyatts
 AND a.attrelid = i.indrelid AND a.attnum = k.attnum ORDER BY k.place`)
	if err != nil {
		return err
	}
	place := make(map[string]uint32, len(rows))
	for i, row := range rows {
		place[row[0]] = uint32(i + 1)
	}
	for i := range relation.Columns {
		relation.Columns[i].PrimaryKeyPosition = place[relation.Columns[i].Name]
	}
	return nil
}

// joinNumbers prints numbers for an SQL list.
func joinNumbers(numbers []uint32) string {
	text := make([]string, len(numbers))
	for i, n := range numbers {
		text[i] = strconv.FormatUint(uint64(n), 10)
	}
	return strings.Join(text, ",")
}
