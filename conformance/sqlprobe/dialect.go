package sqlprobe

import (
	"context"
	"database/sql"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"
)

// dialect is what differs between the two stores.
type dialect struct {
	// flat: there are no schemas.
	flat bool
	// query gives a table's columns, list the sink's own list of names.
	query, list string
	// messages gives those of a stream in their order.
	messages string
	// before and after make bytes of a column, led by one of ours: a driver may give
	// nothing for an empty text.
	before, after string
	snapshot      sql.IsolationLevel
}

var sqlite = dialect{
	flat:  true,
	query: `SELECT name FROM pragma_table_info(?2) WHERE ?1 = ?1 ORDER BY cid`,
	list: `SELECT "table", pg_column, "column" FROM _replicant_columns
		WHERE pg_schema = ?1 AND pg_table = ?2 ORDER BY pg_column`,
	messages: `SELECT commit_lsn, ordinal, prefix, content FROM _replicant_messages WHERE stream_id = ? ORDER BY rowid`,
	before:   "CAST('v' || ", after: " AS BLOB)",
	snapshot: sql.LevelDefault,
}

var postgres = dialect{
	query: `SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relname = $2 AND (n.nspname = $1 OR $1 = '' AND n.nspname = ANY (current_schemas(false)))
		AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`,
	list: `SELECT "table", pg_column, "column" FROM _replicant_columns
		WHERE pg_schema = $1 AND pg_table = $2 ORDER BY pg_column`,
	messages: `SELECT commit_lsn::text, ordinal, prefix, content FROM _replicant_messages
		WHERE stream_id = $1 ORDER BY commit_lsn, ordinal`,
	before: "'v' || ", after: "::text",
	snapshot: sql.LevelRepeatableRead,
}

func (d dialect) cast(column string) string { return d.before + column + d.after }

func (d dialect) readOnly() bool { return !d.flat }

func (d dialect) isolation() sql.IsolationLevel { return d.snapshot }

// columns are a table's columns, none where there is no such table.
func (d dialect) columns(ctx context.Context, db querier, schema, table string) ([]string, error) {
	rows, err := db.QueryContext(ctx, d.query, schema, table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}
