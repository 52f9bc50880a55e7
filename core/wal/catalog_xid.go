package wal

import (
	"context"
	"strconv"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// NextXID is the next transaction id that the server will give out, with its epoch.
func (c *Catalog) NextXID(ctx context.Context) (uint64, error) {
	row, err := c.row(ctx, 1, "SELECT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text")
	if err != nil {
		return 0, err
	}
	xid, err := strconv.ParseUint(row[0], 10, 64)
	if err != nil {
		return 0, core.NewHalt(core.HaltSourceRefused, phaseCatalog.String(), "the server's next transaction id cannot be read")
	}
	return xid, nil
}
