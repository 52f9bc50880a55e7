package snapshot

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Exported is a snapshot that another session exported, adopted by the connections of a
// copy: each is in a transaction that sees it and holds a lock on every table that the
// publications stream, until Close. Meanwhile no table can be altered, truncated or
// dropped; such statements wait at the source.
//
// All locks are taken before anything is read. A statement that waits for one of them
// would otherwise stand in the way of the connections that come later, which it waits for.
type Exported struct {
	source       Source
	name         string
	publications []string
	conns        []*pgconn.PgConn
	tables       []*Table
	xmin         uint64
}

// Adoption says what to adopt.
type Adoption struct {
	// Snapshot is the exported snapshot's name.
	Snapshot     string
	Publications []string
	// Connections is how many read at once, at least 1.
	Connections int
}

// snapshotName is the form of the names that Postgres gives.
var snapshotName = regexp.MustCompile(`^[0-9A-F]{8}-[0-9A-F]{8}-[0-9]+$`)

// Adopt takes over an exported snapshot. The session that exported it must live until
// Adopt returns.
//
// A table that was altered, rewritten or truncated, or whose place in the publications
// changed, between the export and the lock is a *core.Halt snapshot_incomplete: the
// snapshot would show too little of it.
func Adopt(ctx context.Context, source Source, a Adoption) (*Exported, error) {
	if !snapshotName.MatchString(a.Snapshot) {
		return nil, core.NewHalt(core.HaltSourceRefused, "snapshot", "the exported snapshot's name has another form")
	}
	var e *Exported
	err := patiently(ctx, source.Waiting, func() error {
		e = &Exported{source: source, name: a.Snapshot, publications: a.Publications}
		err := e.adopt(ctx, max(a.Connections, 1))
		if err != nil {
			_ = e.Close() // with its locks
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Exported) adopt(ctx context.Context, connections int) error {
	for range connections {
		conn, err := e.connect(ctx)
		if err != nil {
			return err
		}
		e.conns = append(e.conns, conn)
		if e.tables == nil {
			if err := e.look(ctx, conn); err != nil {
				return e.source.locked(ctx, conn, err)
			}
		}
		if err := e.hold(ctx, conn); err != nil {
			return err
		}
	}
	now, err := e.source.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = closeConn(now) }()
	return e.unchanged(ctx, now)
}

// look reads what the snapshot shows of the catalog, and of itself.
func (e *Exported) look(ctx context.Context, conn *pgconn.PgConn) (err error) {
	if e.tables, err = Tables(ctx, conn, e.publications); err != nil {
		return err
	}
	rows, err := query(ctx, conn, "SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::text")
	if err != nil {
		return err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return errShape
	}
	e.xmin, err = strconv.ParseUint(rows[0][0], 10, 64)
	return err
}

// Xmin is the oldest transaction whose effects the snapshot may not see: nothing that was
// deleted since can be cleaned up at the source.
func (e *Exported) Xmin() uint64 { return e.xmin }

// Tables is what the publications stream, as the snapshot shows it.
func (e *Exported) Tables() []*Table { return e.tables }

// Close ends the transactions and gives the locks back.
func (e *Exported) Close() error {
	var all []error
	for _, conn := range e.conns {
		all = append(all, closeConn(conn))
	}
	return errors.Join(all...)
}

// connect opens a connection whose transaction sees the snapshot.
func (e *Exported) connect(ctx context.Context) (*pgconn.PgConn, error) {
	conn, err := e.source.Open(ctx)
	if err != nil {
		return nil, err
	}
	_, err = query(ctx, conn, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT "+QuoteLiteral(e.name)+
		"; SET LOCAL lock_timeout = "+lockWaitSetting)
	if err == nil {
		return conn, nil
	}
	_ = closeConn(conn)
	if refused(e.source.Classify(ctx, err)) {
		return nil, incomplete("", "the exported snapshot is gone: the session that made the slot has ended")
	}
	return nil, e.source.Classify(ctx, err)
}

// refused reports a server that works and said no.
func refused(err error) bool {
	halt, ok := core.AsHalt(err)
	return ok && halt.Code == core.HaltSourceRefused
}

func incomplete(relation, format string, args ...any) error {
	halt := core.NewHalt(core.HaltSnapshotIncomplete, "snapshot", format, args...)
	halt.Relation = relation
	return halt
}

// hold takes the locks in one try.
func (e *Exported) hold(ctx context.Context, conn *pgconn.PgConn) error {
	for _, t := range e.tables {
		if err := t.Refusal(); err != nil {
			return err
		}
		// A SELECT takes the lock that COPY needs, of every partition too, with the rights
		// that COPY needs; LOCK TABLE would ask for more where columns are granted.
		_, err := query(ctx, conn, "SELECT FROM "+t.From()+" LIMIT 0")
		switch {
		case err == nil:
		case lockTimeout(err):
			return &lockedError{t.String()}
		case refused(e.source.Classify(ctx, err)):
			return incomplete(t.String(), "the table was dropped or renamed after the slot was made")
		default:
			return e.source.Classify(ctx, err)
		}
	}
	_, err := query(ctx, conn, "SET LOCAL lock_timeout = 0")
	return e.source.Classify(ctx, err)
}

// unchanged compares the catalog under the snapshot with the catalog now.
func (e *Exported) unchanged(ctx context.Context, now *pgconn.PgConn) error {
	var oids []string
	for _, t := range e.tables {
		oids = append(oids, fmt.Sprint(t.Relation.OID))
		for _, l := range t.Leaves {
			oids = append(oids, fmt.Sprint(l.OID))
		}
	}
	major, err := majorOf(now)
	if err != nil {
		return err
	}
	for _, sql := range []string{shapeSQL(oids), membershipSQL(major, e.publications)} {
		then, err := query(ctx, e.conns[0], sql)
		if err != nil {
			return e.source.Classify(ctx, err)
		}
		today, err := query(ctx, now, sql)
		if err != nil {
			return e.source.Classify(ctx, err)
		}
		if relation, same := compareFacts(then, today); !same {
			return incomplete(relation, "the table was altered, rewritten, truncated or published otherwise after the slot was made")
		}
	}
	return nil
}

// compareFacts compares rows of {oid, name, facts}. What only today shows is a relation
// that came later, so that the stream has all of it; what only then shows and has no facts
// never mattered.
func compareFacts(then, today [][]string) (relation string, same bool) {
	now := map[string]string{}
	for _, row := range today {
		now[row[0]] = row[2]
	}
	for _, row := range then {
		if row[2] != now[row[0]] {
			return row[1], false
		}
	}
	return "", true
}

// shapeSQL is one row a relation with all that a copy depends on.
func shapeSQL(oids []string) string {
	if len(oids) == 0 {
		oids = []string{"0"}
	}
	return `SELECT c.oid, c.relname, pg_catalog.concat_ws('/', c.relname, c.relnamespace, c.relkind, c.relpersistence, c.relreplident, c.relispartition, c.relfilenode,
 (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attisdropped, a.attgenerated), ',' ORDER BY a.attnum)
  FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0))
FROM pg_catalog.pg_class c WHERE c.oid IN (` + strings.Join(oids, ", ") + `)`
}

// membershipSQL is one row for each relation that existed when the reader's snapshot was
// taken and could be a member: a table that was added since existed before, and is a
// difference.
func membershipSQL(major int, publications []string) string {
	names := make([]string, len(publications))
	for i, name := range publications {
		names[i] = QuoteLiteral(name)
	}
	list, filter, schemas := "''", "''", ""
	if major >= 15 {
		list, filter = "r.prattrs", "r.prqual"
		schemas = `, (SELECT pg_catalog.string_agg(s.pnnspid::text, ',' ORDER BY s.pnnspid) FROM pg_catalog.pg_publication_namespace s WHERE s.pnpubid = p.oid)`
	}
	return `SELECT 'p' || p.oid, p.pubname, pg_catalog.concat_ws('/', p.puballtables, p.pubviaroot` + schemas + `)
FROM pg_catalog.pg_publication p WHERE p.pubname IN (` + strings.Join(names, ", ") + `)
UNION ALL SELECT 'r' || c.oid, c.relname, (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', r.prpubid, ` + list + `, ` + filter + `), ',' ORDER BY r.prpubid)
 FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
 WHERE r.prrelid = c.oid AND p.pubname IN (` + strings.Join(names, ", ") + `))
FROM pg_catalog.pg_class c WHERE c.relkind IN ('r', 'p') AND c.oid >= 16384`
}
