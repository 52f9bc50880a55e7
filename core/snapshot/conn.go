package snapshot

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// closeConn ends a connection. A server that does not read cannot hold us up; the
// transaction ends with the connection.
func closeConn(conn *pgconn.PgConn) error {
	if conn == nil {
		return nil
	}
	const polite = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), polite)
	defer cancel()
	return conn.Close(ctx)
}
