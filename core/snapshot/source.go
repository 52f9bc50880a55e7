package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Source is how this package reaches Postgres; core/wal makes both.
type Source struct {
	// Open makes an ordinary connection with the pinned settings in force. Its errors
	// are classified.
	Open func(ctx context.Context) (*pgconn.PgConn, error)
	// Classify turns an error of the driver into a *core.Halt, an error that a new
	// connection may mend, or the context's own error.
	Classify func(ctx context.Context, err error) error
	// Waiting is told, with the table, that somebody is changing a table and is waited
	// for; it may be nil.
	Waiting func(table string)
}

// Querier is a connection that runs statements by the simple protocol: a *pgconn.PgConn.
type Querier interface {
	Exec(ctx context.Context, sql string) *pgconn.MultiResultReader
	ParameterStatus(key string) string
}

// query returns the rows of the last statement. NULL is the empty text.
func query(ctx context.Context, conn Querier, sql string) ([][]string, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, result := range results {
		rows = rows[:0]
		for _, values := range result.Rows {
			row := make([]string, len(values))
			for i, v := range values {
				row[i] = string(v)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// errShape is an answer of the catalog that Postgres would not give.
var errShape = errors.New("the catalog answers in another shape")

// majorOf reads the server's major; core/wal refuses what is too old.
func majorOf(conn Querier) (int, error) {
	var major int
	if _, err := fmt.Sscanf(conn.ParameterStatus("server_version"), "%d", &major); err != nil {
		return 0, core.NewHalt(core.HaltSourcePooler, "snapshot", "the server does not tell its version")
	}
	return major, nil
}

// QuoteIdentifier quotes a name for SQL.
func QuoteIdentifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// QuoteLiteral quotes a text for SQL; standard_conforming_strings is pinned on.
func QuoteLiteral(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
