package judge

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5/pgconn"
)

// pinned are the settings under which a value's text is compared. They are the judge's
// own list, and must say what the stream's do.
var pinned = map[string]string{
	"client_encoding": "UTF8", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres", "TimeZone": "UTC",
	"extra_float_digits": "1", "bytea_output": "hex", "lc_monetary": "C", "xmloption": "content",
	"application_name": "judge",
}

func connect(ctx context.Context, dsn string) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	maps.Copy(config.RuntimeParams, pinned)
	return pgconn.ConnectConfig(ctx, config)
}

// query calls visit with each row of a statement, as the server prints it. Values are
// valid until visit returns.
func query(ctx context.Context, conn *pgconn.PgConn, sql string, visit func(values [][]byte) error, args ...string) error {
	params := make([][]byte, len(args))
	for i, arg := range args {
		params[i] = []byte(arg)
	}
	rows := conn.ExecParams(ctx, sql, params, nil, nil, nil)
	var failed error
	for rows.NextRow() {
		if failed == nil {
			failed = visit(rows.Values())
		}
	}
	if _, err := rows.Close(); err != nil {
		return fmt.Errorf("judge: %w", err)
	}
	return failed
}

// once runs a query on a connection of its own.
func once(ctx context.Context, dsn, sql string, visit func(values [][]byte) error, args ...string) error {
	conn, err := connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return query(ctx, conn, sql, visit, args...)
}

// missing reports whether the error says that our own tables do not exist yet.
func missing(err error) bool {
	said, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (said.Code == "42P01" || said.Code == "3F000")
}
