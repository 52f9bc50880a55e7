package chunks

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// Options say where to read.
type Options struct {
	Source       snapshot.Source
	Publications []string
	// SystemIdentifier and Timeline are those of the stream: rows of another life of the
	// server would not fit to it.
	SystemIdentifier string
	Timeline         uint32
	// Standby is set where the stream reads from one.
	Standby *Standby
	// Describe fills in what only the catalog knows of a relation.
	Describe func(context.Context, *core.Relation)
	// LockWait bounds how long a chunk waits for somebody who changes its table.
	LockWait time.Duration
}

// Reader is one connection. It is for one goroutine.
type Reader struct {
	o     Options
	conn  *pgconn.PgConn
	keys  map[uint32][]keyColumn // by index
	means map[uint32]int         // bytes of a row, by table
	block uint64                 // bytes of a page of WAL
	file  uint64                 // and of a segment

	byColumns  map[uint32]bool // tables that LOCK TABLE was refused of
	locks      map[uint32]lock // of the connection
	statements int             // that were prepared
}

// New connects to nothing; the first job does.
func New(o Options) *Reader {
	// Less than deadlock_timeout's default: the catalog's functions lock other tables for a
	// moment while the chunk's is held, and an application that holds such a table and
	// waits for ours must get it before the server looks for somebody to end.
	const lockWait = 500 * time.Millisecond
	if o.LockWait <= 0 {
		o.LockWait = lockWait
	}
	return &Reader{o: o, keys: map[uint32][]keyColumn{}, means: map[uint32]int{}, byColumns: map[uint32]bool{}}
}

// Close ends the connection.
func (r *Reader) Close() {
	if r.conn != nil {
		const polite = time.Second
		ctx, cancel := context.WithTimeout(context.Background(), polite)
		defer cancel()
		_ = r.conn.Close(ctx)
		r.conn = nil
	}
}

// Result is the answer to a job; the part of its kind is set.
type Result struct {
	Members  []incremental.Member
	Left     error // why tables are not among them; nil when all are
	Look     incremental.Look
	Snapshot incremental.Snapshot
	Read     incremental.Read
	Cut      []incremental.Key
	End      core.LSN // of the WAL behind Snapshot, where it was asked for
}

// ErrAgain: the job came to nothing and may be tried again. ErrElsewhere: the server is not
// the one that the stream reads from.
var (
	ErrAgain     = errors.New("the chunk could not be read now")
	ErrElsewhere = errors.New("the reader found another server than the stream's")
)

// Do runs a job. Its error is ErrAgain, ErrElsewhere, a *core.Halt, one that a new
// connection may mend, or the context's own.
//
// A copy hands on pieces before its end: the first has no rows and the snapshot, the others
// rows. hand returns when the next one is wanted. The rows of the last are the result.
func (r *Reader) Do(ctx context.Context, job incremental.Job, hand func(context.Context, Result) error) (Result, error) {
	var found Result
	err := r.connect(ctx)
	if err == nil {
		err = r.do(ctx, job, &found, hand)
	}
	return found, r.sorted(ctx, err)
}

func (r *Reader) do(ctx context.Context, job incremental.Job, found *Result, hand func(context.Context, Result) error) (err error) {
	switch job.Kind {
	case incremental.JobList:
		found.Members, found.Left, err = r.list(ctx, job.Partly)
	case incremental.JobLook:
		found.Look, err = r.look(ctx, job)
	case incremental.JobSnapshot:
		if found.Snapshot, err = r.snapshot(ctx); err == nil && job.End {
			found.End, err = r.highMark(ctx)
		}
	case incremental.JobCut:
		found.Cut, err = r.cut(ctx, job)
	case incremental.JobChunk:
		found.Read, err = r.chunk(ctx, job)
	case incremental.JobCopy:
		found.Read, err = r.copy(ctx, job, hand)
	default:
		err = core.NewHalt(core.HaltInvariant, "snapshot", "a job of kind %d is unknown", job.Kind)
	}
	return err
}

func parsed(text string) (incremental.Snapshot, error) {
	s, ok := incremental.ParseSnapshot(text)
	if !ok {
		return s, shape("a snapshot")
	}
	return s, nil
}

func shape(what string) error {
	return core.NewHalt(core.HaltSourceRefused, "snapshot", "the server answers %s in another form", what)
}

func (r *Reader) connect(ctx context.Context) error {
	if r.conn != nil {
		return nil
	}
	conn, err := r.o.Source.Open(ctx)
	if err != nil {
		return err
	}
	r.conn, r.locks = conn, map[uint32]lock{}
	row, err := r.one(ctx, `SELECT pg_catalog.current_setting('wal_block_size'), (SELECT setting::int8
 * CASE unit WHEN '8kB' THEN 8192 WHEN 'MB' THEN 1048576 WHEN 'kB' THEN 1024 ELSE 1 END FROM pg_catalog.pg_settings WHERE name = 'wal_segment_size')`, 2)
	if err != nil {
		return err
	}
	block, okBlock := number(row[0])
	file, okFile := number(row[1])
	if !okBlock || !okFile || block == 0 || file == 0 {
		return shape("the sizes of its WAL")
	}
	r.block, r.file = block, file
	return nil
}

// sorted ends what a failed job left open and says what its error means.
func (r *Reader) sorted(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if r.conn != nil && (r.conn.IsClosed() || r.conn.TxStatus() != 'I' && !r.rollback(ctx)) {
		r.Close()
	}
	if _, ok := core.AsHalt(err); ok || errors.Is(err, ErrAgain) || errors.Is(err, ErrElsewhere) {
		return err
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && passing(pg.Code) {
		return ErrAgain
	}
	return r.o.Source.Classify(ctx, err)
}

// passing are the answers of a server that may be another one a moment later: a lock that
// was not to be had, a cancelled or serialised statement, a table or column that somebody
// is changing.
func passing(code string) bool {
	switch code {
	case "55P03", "57014", "40001", "40P01", "42P01", "42703", "42809", "XX000", "55000", "53200", "53100":
		return true
	}
	return false
}

func (r *Reader) rollback(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	return r.exec(ctx, "ROLLBACK") == nil
}

func (r *Reader) exec(ctx context.Context, sql string) error {
	_, err := r.conn.Exec(ctx, sql).ReadAll()
	return err
}

// one is the only row of the last statement, as text.
func (r *Reader) one(ctx context.Context, sql string, columns int) ([]string, error) {
	rows, err := r.rows(ctx, sql)
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 || len(rows[0]) != columns {
		return nil, shape("a question")
	}
	return rows[0], nil
}

func (r *Reader) rows(ctx context.Context, sql string) ([][]string, error) {
	results, err := r.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, values := range results[len(results)-1].Rows {
		row := make([]string, len(values))
		for i, v := range values {
			row[i] = string(v)
		}
		rows = append(rows, row)
	}
	return rows, nil
}
