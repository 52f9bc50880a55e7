package waltest

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Status is a status update as the client sent it.
type Status struct {
	Write, Flush, Apply uint64
	ReplyRequested      bool
	// At is when it arrived.
	At time.Time
}

// Stream is the server's side of a copy.
type Stream struct {
	// Command is the START_REPLICATION command.
	Command string

	conn    net.Conn
	first   []byte
	mu      sync.Mutex
	told    []Status
	changed chan struct{} // closed and replaced at every new status, and at the end
	ended   bool          // the client ended the copy or left
	begun   chan struct{}
}

func newStream(conn net.Conn, command string, first []byte) *Stream {
	return &Stream{Command: command, conn: conn, first: first, changed: make(chan struct{}), begun: make(chan struct{})}
}

// serve begins the copy and reads what the client sends, until the copy ends. It
// reports whether the client takes commands again.
func (s *Stream) serve(backend *pgproto3.Backend) bool {
	if _, err := s.conn.Write(append([]byte{'W', 0, 0, 0, 7, 0, 0, 0}, s.first...)); err != nil {
		return false
	}
	close(s.begun)
	defer s.end()
	for {
		message, err := backend.Receive()
		if err != nil {
			return false
		}
		switch m := message.(type) {
		case *pgproto3.CopyData:
			s.take(m.Data)
		case *pgproto3.CopyDone:
			backend.Send(&pgproto3.CopyDone{})
			backend.Send(&pgproto3.CommandComplete{CommandTag: []byte("COPY 0")})
			backend.Send(&pgproto3.CommandComplete{CommandTag: []byte("START_REPLICATION")})
			return ready(backend)
		default:
			return false
		}
	}
}

func (s *Stream) take(data []byte) {
	const size = 1 + 4*8 + 1
	if len(data) != size || data[0] != 'r' {
		return
	}
	number := func(at int) uint64 { return binary.BigEndian.Uint64(data[at:]) }
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, Status{
		Write: number(1), Flush: number(9), Apply: number(17), ReplyRequested: data[33] == 1, At: time.Now(),
	})
	s.notify()
}

func (s *Stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.notify()
}

func (s *Stream) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Statuses lists all status updates so far.
func (s *Stream) Statuses() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Status(nil), s.told...)
}

// Await waits until ok is true of the status updates, and reports whether it became so
// before the copy ended or ctx was done.
func (s *Stream) Await(ctx context.Context, ok func([]Status) bool) bool {
	for {
		s.mu.Lock()
		good, over, changed := ok(s.told), s.ended, s.changed
		s.mu.Unlock()
		if good || over {
			return good
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// Data sends a pgoutput message. Postgres puts its position into both fields.
func (s *Stream) Data(position uint64, message []byte) error {
	return s.Raw(AppendData(nil, position, message))
}

// Keepalive sends a keepalive.
func (s *Stream) Keepalive(walEnd uint64, reply bool) error {
	return s.Raw(AppendKeepalive(nil, walEnd, reply))
}

// Fail sends an ErrorResponse.
func (s *Stream) Fail(e Error) error {
	b, err := e.response().Encode(nil)
	if err != nil {
		return err
	}
	return s.Raw(b)
}

// Notice sends a NoticeResponse.
func (s *Stream) Notice(e Error) error {
	b, err := (*pgproto3.NoticeResponse)(e.response()).Encode(nil)
	if err != nil {
		return err
	}
	return s.Raw(b)
}

// Raw sends bytes as they are.
func (s *Stream) Raw(b []byte) error {
	<-s.begun
	_, err := s.conn.Write(b)
	return err
}

// Cut closes the connection.
func (s *Stream) Cut() { _ = s.conn.Close() }

// AppendData builds a data frame.
func AppendData(b []byte, position uint64, message []byte) []byte {
	b = append(b, 'd')
	b = binary.BigEndian.AppendUint32(b, uint32(4+25+len(message)))
	b = append(b, 'w')
	b = binary.BigEndian.AppendUint64(b, position)
	b = binary.BigEndian.AppendUint64(b, position)
	b = binary.BigEndian.AppendUint64(b, 0)
	return append(b, message...)
}

// AppendKeepalive builds a keepalive frame.
func AppendKeepalive(b []byte, walEnd uint64, reply bool) []byte {
	b = append(b, 'd', 0, 0, 0, 4+18, 'k')
	b = binary.BigEndian.AppendUint64(b, walEnd)
	b = binary.BigEndian.AppendUint64(b, 0)
	if reply {
		return append(b, 1)
	}
	return append(b, 0)
}
