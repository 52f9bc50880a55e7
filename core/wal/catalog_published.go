package wal

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// PublishedTable is one member of a publication, or a partition below one.
type PublishedTable struct {
	Schema, Name string
	// Chosen: by name or as a partition, not because the publication takes all there is.
	// Only of such a table old rows can exist that were never published.
	Chosen bool
}

// Published lists by OID what the publications stream now, with partitions: their rows
// come and go with ATTACH, DETACH and TRUNCATE, of which a publication through the root
// says nothing.
func (c *Catalog) Published(ctx context.Context, publications []string) (map[uint32]PublishedTable, error) {
	names := make([]string, len(publications))
	for i, name := range publications {
		names[i] = quoteLiteral(name)
	}
	const member = `SELECT c.oid, c.relkind, NOT b.puballtables AS chosen FROM pg_catalog.pg_publication b
 JOIN pg_catalog.pg_publication_tables p ON p.pubname = b.pubname
 JOIN pg_catalog.pg_namespace n ON n.nspname = p.schemaname
 JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename WHERE b.pubname IN (`
	query := `WITH member AS (` + member + strings.Join(names, ",") + `))
SELECT c.oid, n.nspname, c.relname, pg_catalog.bool_or(m.chosen)
FROM (SELECT oid, chosen FROM member
 UNION ALL SELECT t.relid, true FROM member, LATERAL pg_catalog.pg_partition_tree(member.oid) t WHERE relkind = 'p' AND t.relid <> member.oid) m
JOIN pg_catalog.pg_class c ON c.oid = m.oid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
GROUP BY 1, 2, 3`
	tables := map[uint32]PublishedTable{}
	err := c.main.use(ctx, func(pg *pgconn.PgConn) error {
		rows, err := simpleQuery(ctx, pg, query)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if len(row) != 4 {
				return core.NewHalt(core.HaltSourceRefused, phaseCatalog.String(), "pg_publication_tables answers in another shape")
			}
			oid, err := strconv.ParseUint(row[0], 10, 32)
			if err != nil {
				return core.NewHalt(core.HaltSourceRefused, phaseCatalog.String(), "an OID is no number")
			}
			tables[uint32(oid)] = PublishedTable{Schema: row[1], Name: row[2], Chosen: row[3] == "t"}
		}
		return nil
	})
	return tables, err
}

// HeldBackBy names the slots of synchronized_standby_slots (17 and later) that keep the
// server from sending changes of a failover slot, since they are missing or nobody reads
// from them.
func (c *Catalog) HeldBackBy(ctx context.Context) (string, error) {
	row, err := c.row(ctx, 1, `SELECT coalesce(pg_catalog.string_agg(w.slot, ', '), '')
FROM (SELECT pg_catalog.btrim(u, ' "') AS slot
 FROM pg_catalog.unnest(pg_catalog.string_to_array(pg_catalog.current_setting('synchronized_standby_slots', true), ',')) u) w
LEFT JOIN pg_catalog.pg_replication_slots s ON s.slot_name = w.slot AND s.slot_type = 'physical' AND s.active
WHERE w.slot <> '' AND s.slot_name IS NULL`)
	if err != nil {
		return "", err
	}
	return row[0], nil
}

// SlotNames lists the server's slots and whether anybody reads from them, for whoever
// finds that no slot is left.
func (c *Catalog) SlotNames(ctx context.Context) (string, error) {
	row, err := c.row(ctx, 1, `SELECT coalesce(pg_catalog.string_agg(slot_name || CASE WHEN active THEN ' (in use)' ELSE ' (unused)' END, ', ' ORDER BY active, slot_name), '')
FROM pg_catalog.pg_replication_slots`)
	if err != nil {
		return "", err
	}
	return row[0], nil
}

// OldestWriter names the session whose transaction has been open for longest, as far as
// this role may see it: what a slot that is being made waits for. 0 when there is none.
func (c *Catalog) OldestWriter(ctx context.Context) (pid uint32, since string, err error) {
	row, err := c.row(ctx, 2, `SELECT coalesce(pg_catalog.min(pid), 0), coalesce(pg_catalog.to_char(pg_catalog.min(since), 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '') FROM (
 SELECT pid, xact_start AS since FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY pg_catalog.age(backend_xid) DESC LIMIT 1) a`)
	if err != nil {
		return 0, "", err
	}
	n, err := strconv.ParseUint(row[0], 10, 32)
	if err != nil {
		return 0, "", core.NewHalt(core.HaltSourceRefused, phaseCatalog.String(), "a process id is no number")
	}
	return uint32(n), row[1], nil
}
