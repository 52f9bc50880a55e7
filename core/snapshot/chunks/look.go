package chunks

import (
	"context"
	"strconv"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// begin opens the transaction of a read. Nothing may take its snapshot before the table is
// locked.
const begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

// list is the tables that the publications stream now. What could not be read is refused, or
// left out, with the first reason.
func (r *Reader) list(ctx context.Context, partly bool) (members []incremental.Member, left error, err error) {
	tables, err := r.tables(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range tables {
		switch err := t.Refusal(); {
		case err == nil:
			members = append(members, member(t))
		case !partly:
			return nil, nil, err
		case left == nil:
			left = err
		}
	}
	return members, left, nil
}

func (r *Reader) tables(ctx context.Context) ([]*snapshot.Table, error) {
	if err := r.exec(ctx, begin); err != nil {
		return nil, err
	}
	tables, err := snapshot.Tables(ctx, r.conn, r.o.Publications)
	if err != nil {
		return nil, err
	}
	return tables, r.exec(ctx, "COMMIT")
}

func member(t *snapshot.Table) incremental.Member {
	m := incremental.Member{
		OID: t.Relation.OID, Schema: t.Relation.Schema, Name: t.Relation.Name,
		Identity: t.Relation.Identity, Filtered: t.Filter != "", Alone: !t.Partitioned,
	}
	for _, i := range t.Key {
		m.Key = append(m.Key, t.Relation.Columns[i].Name)
		m.KeyTypes = append(m.KeyTypes, t.Relation.Columns[i].TypeOID)
	}
	m.KeyCollations = t.KeyCollations
	m.Extent = incremental.Extent{Known: true, Rows: t.EstimatedRows(), Bytes: t.EstimatedBytes()}
	return m
}

// find is the table by its OID, or another one that has its name now.
func find(tables []*snapshot.Table, m incremental.Member) *snapshot.Table {
	var named *snapshot.Table
	for _, t := range tables {
		if t.Relation.OID == m.OID {
			return t
		}
		if t.Relation.Schema == m.Schema && t.Relation.Name == m.Name {
			named = t
		}
	}
	return named
}

// look finds the table in a snapshot of its own, and only then who holds a write lock on it:
// who wrote it before it was published, or before the stream began, holds one still, or has
// ended and is visible.
func (r *Reader) look(ctx context.Context, job incremental.Job) (incremental.Look, error) {
	look := incremental.Look{ID: job.ID}
	tables, err := r.tables(ctx)
	if err != nil {
		return look, err
	}
	t := find(tables, job.Table)
	if t == nil {
		return look, nil
	}
	if err := t.Refusal(); err != nil {
		return look, err
	}
	look.Found, look.Member = true, member(t)
	relation := t.Relation
	r.o.Describe(ctx, &relation)
	look.Relation = &relation
	if look.Writers, err = r.writers(ctx, t.Relation.OID); err == nil && job.End {
		look.End, err = r.highMark(ctx)
	}
	return look, err
}

// writers are the transactions that hold a granted write lock on the table, on a partition
// of it, or on a table above it. Locks go after visibility: a transaction that is not
// listed and had written is visible to every later snapshot.
func (r *Reader) writers(ctx context.Context, oid uint32) ([]incremental.Writer, error) {
	if r.o.Standby != nil { // its pg_locks does not have them
		return r.running(ctx)
	}
	table := strconv.FormatUint(uint64(oid), 10)
	rows, err := r.rows(ctx, `WITH family AS (SELECT `+table+`::oid AS oid
 UNION SELECT relid::oid FROM pg_catalog.pg_partition_tree(`+table+`)
 UNION SELECT relid::oid FROM pg_catalog.pg_partition_ancestors(`+table+`))
SELECT DISTINCT t.transactionid::text, coalesce(p.gid, 'process ' || t.pid) FROM pg_catalog.pg_locks r
 JOIN pg_catalog.pg_locks t ON t.virtualtransaction = r.virtualtransaction AND t.locktype = 'transactionid'
 AND t.mode = 'ExclusiveLock' AND t.granted
 LEFT JOIN pg_catalog.pg_prepared_xacts p ON p.transaction = t.transactionid
WHERE r.locktype = 'relation' AND r.granted AND r.relation IN (SELECT oid FROM family)
 AND r.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
 AND r.mode IN ('RowExclusiveLock', 'ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')`)
	if err != nil {
		return nil, err
	}
	var writers []incremental.Writer
	for _, row := range rows {
		xid, err := strconv.ParseUint(row[0], 10, 32)
		if err != nil {
			return nil, shape("who holds a lock")
		}
		writers = append(writers, incremental.Writer{XID: uint32(xid), Who: row[1]})
	}
	return writers, nil
}

func number(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
}

func lsn(text string) (core.LSN, error) {
	at, err := core.ParseLSN(text)
	if err != nil || at == 0 {
		return 0, shape("a position")
	}
	return at, nil
}
