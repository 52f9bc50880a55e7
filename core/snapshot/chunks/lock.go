package chunks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// A table must be locked before the snapshot is taken, and the first query takes it.
// LOCK TABLE takes none, but wants a right on the table: who may SELECT some columns alone
// is refused. To describe a prepared statement takes none either, asks for no right, and
// locks the tables of the statement until the transaction ends.

// Answers of the server that are told apart here.
const (
	noRight     = "42501"
	queryBefore = "25001" // the isolation level cannot be set behind a query
)

// lock is a prepared statement over a table and the partitions under it.
type lock struct {
	name, sql string
	oids      []string
}

// lockTable begins the transaction of a read and locks the table, by name. No snapshot is
// taken. Where it could not be locked in the usual way, holds must be asked behind the snapshot
// for the tables that it returns.
func (r *Reader) lockTable(ctx context.Context, m incremental.Member) (tables []string, err error) {
	if !r.byColumns[m.OID] {
		err = r.exec(ctx, begin+"; "+r.lockTimeout("LOCAL ")+"; LOCK TABLE "+from(m)+" IN ACCESS SHARE MODE")
		if !answered(err, noRight) {
			return nil, err
		}
		r.byColumns[m.OID] = true
		if err := r.exec(ctx, "ROLLBACK"); err != nil {
			return nil, err
		}
	}
	return r.lockDescribed(ctx, m)
}

func (r *Reader) lockTimeout(local string) string {
	return "SET " + local + "lock_timeout = " + strconv.FormatInt(r.o.LockWait.Milliseconds(), 10)
}

func from(m incremental.Member) string {
	name := snapshot.QuoteIdentifier(m.Schema) + "." + snapshot.QuoteIdentifier(m.Name)
	if m.Alone {
		return "ONLY " + name
	}
	return name
}

func answered(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}

// lockDescribed locks by describing.
func (r *Reader) lockDescribed(ctx context.Context, m incremental.Member) ([]string, error) {
	l, err := r.prepared(ctx, m)
	if err == nil {
		err = r.lockBy(ctx, l)
	}
	return l.oids, err
}

// lockBy begins the transaction. A statement whose table was altered is made anew when it is
// described, under a snapshot that comes too early: then the isolation level cannot be set
// any more, and the server says so.
func (r *Reader) lockBy(ctx context.Context, l lock) error {
	if err := r.exec(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; "+r.lockTimeout("LOCAL ")); err != nil {
		return err
	}
	if err := r.describe(ctx, l.name); err != nil {
		return err
	}
	err := r.exec(ctx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	if answered(err, queryBefore) {
		return ErrAgain
	}
	return err
}

// holds asks which locks there are. It is asked before anything else touches the tables: so
// what is held was held before the snapshot.
func (r *Reader) holds(ctx context.Context, m incremental.Member, oids []string) (map[uint32]bool, error) {
	rows, err := r.rows(ctx, `SELECT l.relation FROM pg_catalog.pg_locks l WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation'
 AND l.mode = 'AccessShareLock' AND l.granted AND l.relation IN (`+strings.Join(oids, ", ")+`)`)
	if err != nil {
		return nil, err
	}
	held := map[uint32]bool{}
	for _, row := range rows {
		oid, err := strconv.ParseUint(row[0], 10, 32)
		if err != nil {
			return nil, shape("its locks")
		}
		held[uint32(oid)] = true
	}
	if len(held) != len(oids) { // another table has the name now
		delete(r.locks, m.OID)
		return nil, ErrAgain
	}
	return held, nil
}

// prepared makes the statement, or makes it current: described once outside the transaction,
// it is not made anew inside, but where somebody alters the table in between.
func (r *Reader) prepared(ctx context.Context, m incremental.Member) (lock, error) {
	l := lock{oids: []string{strconv.FormatUint(uint64(m.OID), 10)}}
	names := []string{"ONLY " + snapshot.QuoteIdentifier(m.Schema) + "." + snapshot.QuoteIdentifier(m.Name) + " AS t0"}
	if !m.Alone {
		rows, err := r.rows(ctx, `SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_partition_tree(`+l.oids[0]+`) p
 JOIN pg_catalog.pg_class c ON c.oid = p.relid AND c.relkind IN ('r', 'p') JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE p.level > 0 ORDER BY c.oid`)
		if err != nil {
			return l, err
		}
		for i, row := range rows {
			l.oids = append(l.oids, row[0])
			names = append(names, fmt.Sprintf("ONLY %s.%s AS t%d", snapshot.QuoteIdentifier(row[1]), snapshot.QuoteIdentifier(row[2]), i+1))
		}
	}
	l.sql = "SELECT FROM " + strings.Join(names, ", ")
	known := r.locks[m.OID]
	if known.sql == l.sql {
		return known, r.describe(ctx, known.name)
	}
	if known.name != "" {
		if err := r.conn.Deallocate(ctx, known.name); err != nil {
			return l, err
		}
		delete(r.locks, m.OID)
	}
	if err := r.exec(ctx, r.lockTimeout("")); err != nil {
		return l, err
	}
	r.statements++
	l.name = fmt.Sprintf("lock_%d", r.statements)
	if _, err := r.conn.Prepare(ctx, l.name, l.sql, nil); err != nil {
		return l, err
	}
	r.locks[m.OID] = l
	return l, nil
}

// describe asks what a prepared statement returns.
func (r *Reader) describe(ctx context.Context, name string) error {
	out := r.conn.Frontend()
	out.SendDescribe(&pgproto3.Describe{ObjectType: 'S', Name: name})
	out.SendSync(&pgproto3.Sync{})
	if err := out.Flush(); err != nil {
		return err
	}
	var failed error
	for {
		message, err := r.conn.ReceiveMessage(ctx)
		switch message := message.(type) {
		case *pgproto3.ErrorResponse:
			failed = pgconn.ErrorResponseToPgError(message)
		case *pgproto3.ReadyForQuery:
			return failed
		}
		if err != nil {
			return err
		}
	}
}
