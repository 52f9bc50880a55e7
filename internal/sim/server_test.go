package sim

import (
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// phase is what the server does with who connects.
type phase uint8

const (
	up phase = iota
	closing
	down
	recovering
)

// server is the model of Postgres: connections, one slot, and the walsender. Guarded by
// the world's mutex, but for what is set once.
type server struct {
	w        *world
	rng      *rand.Rand
	major    int
	phase    phase
	backends map[*backend]struct{}
	pid      uint32
	slot     slot
	lock     *backend      // who holds the bootstrap lock
	stopping chan struct{} // closed when a fast shutdown begins
}

// slot is the replication slot.
type slot struct {
	present bool
	// base is where it was made; saved is what a crash goes back to.
	base, confirmed, saved core.LSN
	holder                 *backend
}

// backend is one connection.
type backend struct {
	s        *server
	gen      *generation
	pid      uint32
	conn     net.Conn
	pg       *pgproto3.Backend
	walsends bool
}

// senderTimeout is the server's wal_sender_timeout as the sidecar sets it.
const senderTimeout = 10 * time.Second

func newServer(w *world, rng *rand.Rand) *server {
	return &server{
		w: w, rng: rng, major: w.plan.major, backends: map[*backend]struct{}{}, pid: 4000,
		stopping: make(chan struct{}),
	}
}

// accept takes a connection; false means that nobody listens.
func (s *server) accept(conn net.Conn, gen *generation) bool {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.phase == down {
		return false
	}
	s.pid++
	b := &backend{s: s, gen: gen, pid: s.pid, conn: conn, pg: pgproto3.NewBackend(conn, conn)}
	s.backends[b] = struct{}{}
	s.w.spawn(b.serve)
	return true
}

// serve speaks to one client until it leaves.
func (b *backend) serve() {
	defer b.leave()
	start, err := b.pg.ReceiveStartupMessage()
	if err != nil {
		return
	}
	if _, ok := start.(*pgproto3.StartupMessage); !ok {
		return
	}
	if !b.welcome() {
		return
	}
	for {
		m, err := b.pg.Receive()
		if err != nil {
			return
		}
		query, ok := m.(*pgproto3.Query)
		if !ok || !b.answer(query.String) {
			return
		}
	}
}

// leave ends the connection, and with it what it held.
func (b *backend) leave() {
	_ = b.conn.Close()
	w := b.s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(b.s.backends, b)
	if b.s.lock == b {
		b.s.lock = nil
	}
	if b.s.slot.holder == b {
		b.s.slot.holder = nil
		w.note("slot released by %d", b.pid)
	}
}

func (b *backend) welcome() bool {
	b.s.w.mu.Lock()
	phase := b.s.phase
	b.s.w.mu.Unlock()
	if phase != up {
		return b.fail("FATAL", "57P03", "the database system is not yet accepting connections")
	}
	b.pg.Send(&pgproto3.AuthenticationOk{})
	b.pg.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: b.s.version()})
	b.pg.Send(&pgproto3.BackendKeyData{ProcessID: b.pid, SecretKey: []byte{1, 2, 3, 4}})
	return b.ready()
}

func (b *backend) ready() bool {
	b.pg.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	return b.pg.Flush() == nil
}

// fail answers an error; FATAL ends the connection.
func (b *backend) fail(severity, code, text string) bool {
	b.pg.Send(&pgproto3.ErrorResponse{Severity: severity, SeverityUnlocalized: severity, Code: code, Message: text})
	if severity == "FATAL" {
		_ = b.pg.Flush()
		return false
	}
	return b.ready()
}

// answer handles one query; false ends the connection.
func (b *backend) answer(query string) bool {
	if strings.HasPrefix(query, "START_REPLICATION") {
		return b.startReplication(query)
	}
	rows, code := b.catalog(query)
	if code != "" {
		return b.fail("ERROR", code, "refused")
	}
	for i, row := range rows {
		if i == 0 {
			fields := make([]pgproto3.FieldDescription, len(row))
			for j := range fields {
				fields[j] = pgproto3.FieldDescription{Name: []byte("c"), DataTypeOID: text, DataTypeSize: -1, TypeModifier: -1}
			}
			b.pg.Send(&pgproto3.RowDescription{Fields: fields})
		}
		data := &pgproto3.DataRow{}
		for _, value := range row {
			data.Values = append(data.Values, []byte(value))
		}
		b.pg.Send(data)
	}
	b.pg.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT")})
	return b.ready()
}

// crash ends every connection at once and sets the slot back to what was on disk. The
// server is away for a while, then recovers for a while.
func (s *server) crash(away, recovery time.Duration) {
	s.halt(away, recovery, "crash")
}

// restart is a clean one: walsenders may first send what there is and hear that it is
// done, for as long as patience lasts.
func (s *server) restart(patience, away time.Duration) {
	s.w.mu.Lock()
	s.phase = closing
	s.w.note("server: fast shutdown begins")
	close(s.stopping)
	for b := range s.backends {
		if !b.walsends {
			_ = b.conn.Close()
		}
	}
	s.w.mu.Unlock()
	began := time.Now()
	for time.Since(began) < patience && s.walsenders() > 0 {
		time.Sleep(100 * time.Millisecond)
	}
	s.halt(away, time.Second, "restart")
	s.w.mu.Lock()
	s.stopping = make(chan struct{})
	s.w.mu.Unlock()
}

func (s *server) walsenders() (n int) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for b := range s.backends {
		if b.walsends {
			n++
		}
	}
	return n
}

func (s *server) halt(away, recovery time.Duration, what string) {
	s.w.mu.Lock()
	s.w.note("server: %s, slot %s back to %s", what, s.slot.confirmed, s.slot.saved)
	s.phase = down
	for b := range s.backends {
		_ = b.conn.Close()
	}
	s.w.mu.Unlock()
	time.Sleep(away)
	for { // a slot is free once all that held it are gone
		s.w.mu.Lock()
		left := len(s.backends)
		if left == 0 {
			s.slot.confirmed = s.slot.saved
			s.phase = recovering
		}
		s.w.mu.Unlock()
		if left == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(recovery)
	s.w.mu.Lock()
	s.phase = up
	s.w.note("server: up")
	s.w.mu.Unlock()
}
