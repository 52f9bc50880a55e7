package waltest

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgproto3"
)

// DSN is the address to give to the client together with Server.Dial.
const DSN = "postgres://tester@/source?host=/waltest&sslmode=disable"

// State is what the server answers to questions. The zero value of a field takes the
// default of NewServer.
type State struct {
	Version       string // server_version, as in "17.2"
	SystemID      string
	Timeline      string
	History       string // of the timeline, as its file has it
	WALEnd        string // end of WAL, "X/X"
	Database      string
	SenderTimeout string // wal_sender_timeout in milliseconds
	InRecovery    bool
	// Unset are pinned settings that are not in force, as behind a pooler.
	Unset string
	// Slot is nil when the slot does not exist.
	Slot *Slot
	// Publications that exist.
	Publications []string
	// Refuse answers a query with an error; nil lets it pass.
	Refuse func(query string) *Error
	// Reply replaces the answer to a query.
	Reply func(query string) ([][]string, bool)
	// RefuseStartup answers the startup packet with an error.
	RefuseStartup func(parameters map[string]string) *Error
	// WithCopy is sent in one piece with the begin of the copy.
	WithCopy []byte
	// TLS is offered where it is set.
	TLS *tls.Config
}

// Slot is the slot's row in the catalog.
type Slot struct {
	Plugin, Type, Database, WALStatus, Invalidation string
	Active, TwoPhase                                bool
	Synced                                          bool // a failover slot that was synced
	ActivePID                                       string
	ConfirmedFlush                                  string
}

// Error is an ErrorResponse or a NoticeResponse.
type Error struct {
	Severity, Code, Message, Routine string
}

// Server accepts connections by Dial. Close it at the end.
type Server struct {
	mu      sync.Mutex
	state   State
	conns   []net.Conn
	streams chan *Stream
	serving sync.WaitGroup
}

// NewServer makes a server; state's empty fields are filled with those of a healthy
// Postgres 17 without a slot.
func NewServer(state State) *Server {
	fill := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	fill(&state.Version, "17.2")
	fill(&state.SystemID, "7000000000000000001")
	fill(&state.Timeline, "1")
	fill(&state.WALEnd, "0/2000000")
	fill(&state.Database, "source")
	fill(&state.SenderTimeout, "10000")
	return &Server{state: state, streams: make(chan *Stream, 16)}
}

// Change changes what is answered from now on.
func (s *Server) Change(f func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.state)
}

// Dial is a DialFunc.
func (s *Server) Dial(context.Context, string, string) (net.Conn, error) {
	client, server := Pipe()
	s.mu.Lock()
	s.conns = append(s.conns, server)
	s.mu.Unlock()
	s.serving.Go(func() { s.serve(server) })
	return client, nil
}

// Stream waits for the next START_REPLICATION and returns the stream that it began.
func (s *Server) Stream(ctx context.Context) (*Stream, error) {
	select {
	case stream := <-s.streams:
		return stream, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close ends all connections and waits for their goroutines.
func (s *Server) Close() {
	s.mu.Lock()
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.serving.Wait()
}

func (s *Server) now() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// serve speaks to one client until it leaves.
func (s *Server) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }() // the one that it is by then
	backend := pgproto3.NewBackend(conn, conn)
	message, err := backend.ReceiveStartupMessage()
	if _, ok := message.(*pgproto3.SSLRequest); ok && err == nil {
		config := s.now().TLS
		if config == nil {
			_, _ = conn.Write([]byte{'N'})
			return
		}
		if _, err := conn.Write([]byte{'S'}); err != nil {
			return
		}
		conn = tls.Server(conn, config)
		backend = pgproto3.NewBackend(conn, conn)
		message, err = backend.ReceiveStartupMessage()
	}
	if err != nil || !s.startup(backend, message) {
		return
	}
	for {
		message, err := backend.Receive()
		if err != nil {
			return
		}
		query, ok := message.(*pgproto3.Query)
		if !ok {
			return // Terminate, or what no client of ours sends
		}
		if !s.answer(backend, conn, query.String) {
			return
		}
	}
}

const pid = 4711

func (s *Server) startup(backend *pgproto3.Backend, message pgproto3.FrontendMessage) bool {
	start, ok := message.(*pgproto3.StartupMessage)
	if !ok {
		return false
	}
	state := s.now()
	if state.RefuseStartup != nil {
		if refusal := state.RefuseStartup(start.Parameters); refusal != nil {
			backend.Send(refusal.response())
			_ = backend.Flush()
			return false
		}
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	if state.Version != "-" {
		backend.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: state.Version})
	}
	backend.Send(&pgproto3.BackendKeyData{ProcessID: pid, SecretKey: []byte{1, 2, 3, 4}})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	return backend.Flush() == nil
}

// answer handles one query; false ends the connection.
func (s *Server) answer(backend *pgproto3.Backend, conn net.Conn, query string) bool {
	state := s.now()
	if state.Refuse != nil {
		if refusal := state.Refuse(query); refusal != nil {
			backend.Send(refusal.response())
			if refusal.Severity == "FATAL" {
				_ = backend.Flush()
				return false
			}
			return ready(backend)
		}
	}
	if strings.HasPrefix(query, "START_REPLICATION") {
		stream := newStream(conn, query, state.WithCopy)
		s.streams <- stream
		return stream.serve(backend)
	}
	rows, ok := state.rows(query)
	if state.Reply != nil {
		if replaced, yes := state.Reply(query); yes {
			rows, ok = replaced, true
		}
	}
	if !ok {
		backend.Send((&Error{Code: "42601", Message: "syntax error"}).response())
		return ready(backend)
	}
	for i, row := range rows {
		if i == 0 {
			backend.Send(&pgproto3.RowDescription{Fields: fields(len(row))})
		}
		data := &pgproto3.DataRow{}
		for _, value := range row {
			data.Values = append(data.Values, []byte(value))
		}
		backend.Send(data)
	}
	backend.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT")})
	return ready(backend)
}

func ready(backend *pgproto3.Backend) bool {
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	return backend.Flush() == nil
}

func fields(n int) []pgproto3.FieldDescription {
	const text = 25
	out := make([]pgproto3.FieldDescription, n)
	for i := range out {
		out[i] = pgproto3.FieldDescription{Name: []byte("c"), DataTypeOID: text, DataTypeSize: -1, TypeModifier: -1}
	}
	return out
}

func (e *Error) response() *pgproto3.ErrorResponse {
	severity := e.Severity
	if severity == "" {
		severity = "ERROR"
	}
	return &pgproto3.ErrorResponse{
		Severity: severity, SeverityUnlocalized: severity, Code: e.Code, Message: e.Message, Routine: e.Routine,
	}
}
