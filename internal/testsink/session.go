package testsink

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// flushBytes is how much is queued before the server is given it to work on.
const flushBytes = 256 << 10

// connectTimeout bounds the wait for a destination that does not answer.
const connectTimeout = 5 * time.Second

// session is one connection with its prepared statements. Statements are queued and sent
// without waiting; sync asks how they fared. After any SQL error it is thrown away.
type session struct {
	conn    *pgconn.PgConn
	pipe    *pgconn.Pipeline
	names   map[string]string
	waiting int // statements whose result was not read
	bytes   int // queued, about, since the last flush

	// What is known of the destination's tables, while no DDL was committed elsewhere.
	generation uint64
	targets    map[*core.Relation]*target
	places     map[string]*place
}

// settings of our sessions. Plans must not be made for the size that a table had once:
// rows are looked up by key, always.
var settings = map[string]string{
	"client_encoding": "UTF8", "TimeZone": "UTC", "jit": "off",
	"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
}

func connect(ctx context.Context, dsn string) (*session, error) {
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	for name, value := range settings {
		config.RuntimeParams[name] = value
	}
	config.RuntimeParams["application_name"] = Name + " " + strconv.Itoa(os.Getpid())
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, names: map[string]string{}}
	s.forget()
	return s, nil
}

// forget drops what is known of the tables.
func (s *session) forget() {
	s.targets, s.places = map[*core.Relation]*target{}, map[string]*place{}
}

func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.pipe != nil {
		_ = s.pipe.Close()
		s.pipe = nil
	}
	_ = s.conn.Close(ctx)
}

// arguments of a statement. They are copied when it is queued.
type arguments struct {
	values  [][]byte
	formats []int16
	oids    []uint32
}

func (a *arguments) reset() {
	a.values, a.formats, a.oids = a.values[:0], a.formats[:0], a.oids[:0]
}

func (a *arguments) add(oid uint32, format int16, value []byte) {
	a.values, a.formats, a.oids = append(a.values, value), append(a.formats, format), append(a.oids, oid)
}

func (a *arguments) text(value string)    { a.add(oidText, 0, []byte(value)) }
func (a *arguments) bytea(value []byte)   { a.add(oidBytea, 1, value) }
func (a *arguments) number(value int64)   { a.add(oidInt8, 0, strconv.AppendInt(nil, value, 10)) }
func (a *arguments) array(value *array)   { a.add(arrayOf(value.element), 1, value.bytes()) }
func (a *arguments) value(v core.Value)   { a.add(oidText, 0, textOf(v)) }
func (a *arguments) position(at core.LSN) { a.add(oidLSN, 0, positionText(at)) }

func arrayOf(element uint32) uint32 {
	if element == oidInt8 {
		return oidInt8Array
	}
	return oidTextArray
}

// textOf is a value as a parameter, nil for NULL.
func textOf(v core.Value) []byte {
	if v.Kind != core.ValueText {
		return nil
	}
	if v.Text == nil {
		return []byte{}
	}
	return v.Text
}

// positionText is NULL for no position.
func positionText(at core.LSN) []byte {
	if at == 0 {
		return nil
	}
	return []byte(at.String())
}

// queue adds a statement, prepared once in a session.
func (s *session) queue(sql string, args *arguments) error {
	if s.pipe == nil {
		s.pipe = s.conn.StartPipeline(context.Background())
	}
	name, prepared := s.names[sql]
	if !prepared {
		name = "s" + strconv.Itoa(len(s.names))
		s.names[sql] = name
		s.pipe.SendPrepare(name, sql, args.oids)
	}
	s.pipe.SendQueryPrepared(name, args.values, args.formats, nil)
	s.waiting++
	for _, value := range args.values {
		s.bytes += len(value)
	}
	s.bytes += len(name) + 32
	if s.bytes < flushBytes {
		return nil
	}
	s.bytes = 0
	s.pipe.SendFlushRequest()
	return s.pipe.Flush()
}

// result is what one statement gave.
type result struct {
	rows [][][]byte
	tag  pgconn.CommandTag
}

// sync waits for everything queued. With an error, the results of the statements before
// the one that failed are returned as well.
func (s *session) sync() ([]result, error) {
	if s.pipe == nil {
		return nil, nil
	}
	expected := s.waiting
	s.waiting, s.bytes = 0, 0
	if err := s.pipe.Sync(); err != nil {
		return nil, err
	}
	var results []result
	for {
		got, err := s.pipe.GetResults()
		if err != nil {
			return results, err
		}
		switch got := got.(type) {
		case *pgconn.ResultReader:
			read := got.Read()
			if read.Err != nil {
				return results, read.Err
			}
			results = append(results, result{read.Rows, read.CommandTag})
		case *pgconn.PipelineSync:
			if len(results) != expected {
				return results, fmt.Errorf("%d results of %d statements", len(results), expected)
			}
			return results, nil
		case nil:
			return results, fmt.Errorf("the connection ended inside of a group of statements")
		}
	}
}

// ask runs one statement now and returns its result.
func (s *session) ask(sql string, args *arguments) (result, error) {
	if err := s.queue(sql, args); err != nil {
		return result{}, err
	}
	results, err := s.sync()
	if err != nil {
		return result{}, err
	}
	return results[len(results)-1], nil
}
