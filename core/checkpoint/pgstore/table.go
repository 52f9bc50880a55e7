package pgstore

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// column is one column of the table with its type as format_type prints it.
type column struct{ name, kind, constraint string }

// columns is the table, in order. Positions are pg_lsn and epochs numeric: both hold all
// 64 bits. The unit columns and progress belong to two-phase delivery and snapshots; they
// are NULL otherwise.
var columns = []column{
	{"stream_id", "text", `COLLATE "C" PRIMARY KEY`},
	{"format_version", "integer", "NOT NULL"},
	{"lineage", "bytea", "NOT NULL"},
	{"epoch", "numeric(20,0)", "NOT NULL"},
	{"sender_id", "bytea", "NOT NULL"},
	{"pos", "pg_lsn", ""},
	{"base", "pg_lsn", ""},
	{"unit_gid", "text", ""},
	{"unit_token", "bytea", ""},
	{"unit_kind", "text", ""},
	{"unit_confirmed", "boolean", ""},
	{"progress", "bytea", ""},
	{"resume_state", "bytea", ""},
	{"source_system_identifier", "text", "NOT NULL"},
	{"source_database", "text", "NOT NULL"},
	{"source_slot", "text", "NOT NULL"},
	{"source_timeline", "bigint", "NOT NULL"},
	{"sink_name", "text", "NOT NULL"},
	{"updated_at", "timestamp with time zone", "NOT NULL"},
}

// CreateTable is the statement that makes the table, for an operator whose role for the
// store may not create one. The name is quoted where that is needed.
func CreateTable(table string) string {
	name := quote(table)
	if plain.MatchString(table) {
		name = table
	}
	lines := make([]string, len(columns))
	for i, c := range columns {
		lines[i] = strings.TrimRight("    "+c.name+" "+c.kind+" "+c.constraint, " ")
	}
	return "CREATE TABLE " + name + " (\n" + strings.Join(lines, ",\n") + "\n)"
}

// plain is a name that needs no quotes and is no key word.
var plain = regexp.MustCompile(`^replicant_[a-z0-9_]+$`)

// findTable finds the table along the search path, or makes it, and checks that it is
// ours. What it has found once must not be made again: a table that was dropped is not an
// empty one.
func (s *Store) findTable(ctx context.Context) error {
	found, err := s.lookUp(ctx)
	switch {
	case err != nil || found:
		return err
	case s.seen:
		return invalid("the table is gone")
	}
	// Other sidecars may do the same at this moment; who loses the race looks again.
	_, err = s.pg.Exec(ctx, CreateTable(s.options.Table)).ReadAll()
	var pg *pgconn.PgError
	if err != nil && !(errors.As(err, &pg) && (pg.Code == "42P07" || pg.Code == "23505" || pg.Code == "42710")) {
		return err
	}
	found, err = s.lookUp(ctx)
	if err == nil && !found {
		err = invalid("the table was made and cannot be found: is the search path empty?")
	}
	return err
}

func (s *Store) lookUp(ctx context.Context) (bool, error) {
	rows, err := s.query(ctx, `SELECT n.nspname, c.oid::text, c.relkind::text, c.relpersistence::text,
 pg_catalog.row_security_active(c.oid)::text
 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = pg_catalog.to_regclass($1)`, quote(s.options.Table))
	if err != nil || len(rows) == 0 {
		return false, err
	}
	schema, oid := string(rows[0][0]), string(rows[0][1])
	switch {
	case string(rows[0][2]) != "r":
		return false, invalid("the name of the table belongs to something that is no plain table")
	case string(rows[0][3]) != "p":
		return false, invalid("the table is unlogged or temporary: a crash would empty it")
	case string(rows[0][4]) != "false":
		return false, invalid("row security applies to the role: a row it may not see would look like none")
	}
	if err := s.checkShape(ctx, oid); err != nil {
		return false, err
	}
	s.table, s.tableName, s.seen = quote(schema)+"."+quote(s.options.Table), [2]string{schema, s.options.Table}, true
	return true, nil
}

// checkShape compares the columns and looks for the key. Columns of somebody else's may
// stand beside ours.
func (s *Store) checkShape(ctx context.Context, oid string) error {
	rows, err := s.query(ctx, `SELECT attname, pg_catalog.format_type(atttypid, atttypmod) FROM pg_catalog.pg_attribute
 WHERE attrelid = $1::text::pg_catalog.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`, oid)
	if err != nil {
		return err
	}
	kinds := map[string]string{}
	for _, row := range rows {
		kinds[string(row[0])] = string(row[1])
	}
	for _, c := range columns {
		if kinds[c.name] != c.kind {
			return invalid("column %s of the table is %q, it must be %q", c.name, kinds[c.name], c.kind)
		}
	}
	rows, err = s.query(ctx, `SELECT 1 FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a
 ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
 WHERE i.indrelid = $1::text::pg_catalog.oid AND a.attname = 'stream_id' AND i.indnkeyatts = 1
 AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL`, oid)
	if err == nil && len(rows) == 0 {
		err = invalid("the table has no unique key on stream_id")
	}
	return err
}

// refusePublished keeps the table out of the stream that it serves. A role that may not
// ask which cluster this is, is not asked for more rights than it needs.
func (s *Store) refusePublished(ctx context.Context, system, database string) error {
	if s.unpublished || len(s.options.Publications) == 0 {
		return nil
	}
	rows, err := s.query(ctx, `SELECT pubname FROM pg_catalog.pg_publication_tables
 WHERE schemaname = $1 AND tablename = $2 AND pg_catalog.current_database() = $3
 AND pubname IN (`+joinLiterals(s.options.Publications)+`)`, s.tableName[0], s.tableName[1], database)
	if err != nil {
		return err
	}
	if len(rows) > 0 {
		here, err := s.query(ctx, `SELECT system_identifier::text FROM pg_catalog.pg_control_system()`)
		var pg *pgconn.PgError
		switch {
		case errors.As(err, &pg) && pg.Code == "42501":
		case err != nil:
			return err
		case string(here[0][0]) == system:
			return invalid("publication %q of the source publishes the store's table: each position would be a change to deliver", rows[0][0])
		}
	}
	s.unpublished = true
	return nil
}
