package wal

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Pauses between looks whether a transaction is visible.
const (
	visibleMin = time.Millisecond
	visibleMax = 50 * time.Millisecond
)

// DescribeOf is Describe for a relation as a committed transaction has streamed it. The
// server sends a commit before it is visible: a table that was made by it is not in the
// catalog yet, nor is a key that it was given. For that it waits, for half of the time that
// ctx leaves: with a synchronous standby that is away it may take for ever.
func (c *Catalog) DescribeOf(ctx context.Context, relation *core.Relation, xid uint32) error {
	err := c.types.use(ctx, func(pg *pgconn.PgConn) error {
		if xid == c.visible {
			return nil
		}
		visible, err := awaitVisible(ctx, pg, xid)
		if visible {
			c.visible = xid
		}
		return err
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.Describe(ctx, relation)
}

// awaitVisible looks for the lock that a transaction has on its own number. It is freed
// once the transaction is visible. A standby shows none, and streams what is visible.
func awaitVisible(ctx context.Context, pg *pgconn.PgConn, xid uint32) (visible bool, err error) {
	deadline, bounded := ctx.Deadline()
	until := time.Now().Add(time.Until(deadline) / 2)
	for wait := visibleMin; ; wait = min(2*wait, visibleMax) {
		rows, err := simpleQuery(ctx, pg, `SELECT FROM pg_catalog.pg_locks WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted
 AND transactionid = '`+strconv.FormatUint(uint64(xid), 10)+`'`)
		if err != nil || len(rows) == 0 || bounded && time.Now().Add(wait).After(until) {
			return err == nil && len(rows) == 0, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}
