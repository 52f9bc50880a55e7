package cases_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// scripted is a sidecar that reads from a scripted walsender: for what no Postgres at
// hand can be made to send.
type scripted struct {
	*testing.T
	sink   *sinktest.Memory
	stream *waltest.Stream
	ended  chan error
}

// begin is where the slot stands.
const begin = core.LSN(0x2000000)

// eachScripted runs a case against a scripted server of every major.
func eachScripted(t *testing.T, f func(s *scripted)) {
	t.Helper()
	eachScriptedAt(t, begin, f)
}

// eachScriptedAt has the slot stand elsewhere.
func eachScriptedAt(t *testing.T, at core.LSN, f func(s *scripted)) {
	t.Helper()
	t.Parallel()
	for major := 14; major <= 18; major++ {
		t.Run(fmt.Sprintf("as%d", major), func(t *testing.T) {
			s := begun(t, major, at, func(conn net.Conn) net.Conn { return conn })
			s.told(at)
			f(s)
		})
	}
}

// begun has sent the answer to START_REPLICATION. The sidecar's end of its connections
// is what conn makes of it.
func begun(t *testing.T, major int, at core.LSN, conn func(net.Conn) net.Conn) *scripted {
	server := waltest.NewServer(waltest.State{
		Version: fmt.Sprintf("%d.2", major), WALEnd: (at + 1<<20).String(), Publications: []string{"p"},
		Slot: &waltest.Slot{Plugin: "pgoutput", Type: "logical", Database: "source", WALStatus: "reserved", ConfirmedFlush: at.String()},
	})
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		client, err := server.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return conn(client), nil
	}
	s := &scripted{T: t, sink: sinktest.NewMemory(), ended: make(chan error, 1)}
	s.sink.SetStored(core.Checkpoint{Position: at})
	p, err := pipeline.New(pipeline.Options{
		Source: wal.Options{DSN: waltest.DSN, Slot: "s", Publications: []string{"p"}, DialFunc: dial, StatusInterval: 10 * time.Millisecond},
		Sink:   s.sink, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ended <- p.Run(t.Context())
	}()
	t.Cleanup(func() {
		p.Drain()
		server.Close()
		<-done
	})
	s.stream, err = server.Stream(t.Context())
	require.NoError(t, err)
	return s
}

// send sends pgoutput messages. The frame of a commit carries its end, as Postgres has
// it; the positions of the others mean nothing.
func (s *scripted) send(messages ...[]byte) {
	s.Helper()
	for _, m := range messages {
		var position uint64
		if m[0] == 'C' {
			position = binary.BigEndian.Uint64(m[10:])
		}
		require.NoError(s, s.stream.Data(position, m))
	}
}

// told waits until the server was told a position as flushed, and looks that it was
// never told more.
func (s *scripted) told(at core.LSN) {
	s.Helper()
	if !s.stream.Await(s.Context(), func(list []waltest.Status) bool {
		return len(list) > 0 && list[len(list)-1].Flush >= uint64(at)
	}) {
		require.FailNow(s, "the sidecar left", "%v", <-s.ended)
	}
	s.neverAbove(at)
}

func (s *scripted) neverAbove(at core.LSN) {
	s.Helper()
	for _, status := range s.stream.Statuses() {
		require.LessOrEqual(s, status.Flush, uint64(at))
	}
}

func (s *scripted) halts(code core.HaltCode) {
	s.Helper()
	select {
	case err := <-s.ended:
		halt, ok := core.AsHalt(err)
		require.True(s, ok, "ended with %v", err)
		require.Equal(s, code, halt.Code, halt.Error())
	case <-time.After(patience):
		require.FailNow(s, "it does not halt")
	}
}

// message builds a pgoutput message of numbers, names (NUL behind them) and bytes.
func message(parts ...any) []byte {
	var b []byte
	for _, part := range parts {
		switch p := part.(type) {
		case byte:
			b = append(b, p)
		case uint16:
			b = binary.BigEndian.AppendUint16(b, p)
		case uint32:
			b = binary.BigEndian.AppendUint32(b, p)
		case core.LSN:
			b = binary.BigEndian.AppendUint64(b, uint64(p))
		case string:
			b = append(append(b, p...), 0)
		case []byte:
			b = append(b, p...)
		default:
			panic(fmt.Sprintf("part of type %T", part))
		}
	}
	return b
}

const noTime = core.LSN(0) // as wide as a time

func beginOf(commit core.LSN, xid uint32) []byte { return message(byte('B'), commit, noTime, xid) }

func commitOf(commit, end core.LSN) []byte { return message(byte('C'), byte(0), commit, end, noTime) }

// relationOf describes a table of one key column of type int4.
func relationOf(oid uint32, name string) []byte {
	return message(byte('R'), oid, "public", name, byte('d'), uint16(1), byte(1), "id", uint32(23), uint32(1<<32-1))
}

func insertOf(oid uint32, id string) []byte {
	return message(byte('I'), oid, byte('N'), uint16(1), byte('t'), uint32(len(id)), []byte(id))
}

// Z03: changes that come in one read with the answer to START_REPLICATION are delivered
// although nothing comes after them.
func TestZ03ChangesBesideTheAnswer(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	s := begun(t, 17, begin, func(conn net.Conn) net.Conn { return &late{Conn: conn, arrived: arrived} })
	s.send(beginOf(begin+0x100, 7), relationOf(5, "z03"), insertOf(5, "1"), commitOf(begin+0x100, begin+0x130))
	close(arrived)
	require.True(t, s.sink.WaitFor(patience, func(list []sinktest.Transaction) bool { return len(list) == 1 }),
		"what came with the answer lies there until the server says something else")
}

// late is a connection on which the answer to START_REPLICATION is not read before more
// has arrived.
type late struct {
	net.Conn
	started atomic.Bool
	arrived <-chan struct{}
}

func (l *late) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("START_REPLICATION")) {
		l.started.Store(true)
	}
	return l.Conn.Write(b)
}

func (l *late) Read(b []byte) (int, error) {
	if l.started.Load() {
		<-l.arrived
	}
	return l.Conn.Read(b)
}

func TestX02AbortWithoutStreaming(t *testing.T) {
	eachScripted(t, func(s *scripted) {
		s.send(beginOf(begin+0x100, 7), relationOf(5, "x02"), insertOf(5, "1"), commitOf(begin+0x100, begin+0x130))
		s.send(message(byte('A'), uint32(8), uint32(9)))
		s.send(beginOf(begin+0x200, 10), insertOf(5, "2"), commitOf(begin+0x200, begin+0x230))
		s.told(begin + 0x230)
		list := s.sink.Transactions()
		require.Len(s, list, 2)
		require.Equal(s, "insert x02 new{id=<1>}", show(&list[0].Changes[0]))
		require.Equal(s, "insert x02 new{id=<2>}", show(&list[1].Changes[0]))
	})
}

// Everything else that was not asked for stops, behind what came before it and ahead of
// what comes after.
func TestX02UnknownMessageStops(t *testing.T) {
	for name, odd := range map[string]struct {
		message []byte
		code    core.HaltCode
	}{
		"stream start": {message(byte('S'), uint32(8), byte(1)), core.HaltUnsupportedMessage},
		"prepare":      {message(byte('P'), byte(0), begin, begin, noTime, uint32(8), "gid"), core.HaltUnsupportedMessage},
		"unheard of":   {message(byte('Z'), uint32(8)), core.HaltUnsupportedMessage},
		"short abort":  {message(byte('A'), uint32(8)), core.HaltMalformedStream},
	} {
		t.Run(name, func(t *testing.T) {
			eachScripted(t, func(s *scripted) {
				s.send(beginOf(begin+0x100, 7), relationOf(5, "x02"), insertOf(5, "1"), commitOf(begin+0x100, begin+0x130))
				s.send(odd.message)
				s.send(beginOf(begin+0x200, 10), insertOf(5, "2"), commitOf(begin+0x200, begin+0x230))
				s.halts(odd.code)
				require.Len(s, s.sink.Transactions(), 1)
				require.Equal(s, begin+0x130, s.sink.Stored().Position)
				s.neverAbove(begin + 0x130)
			})
		})
	}
}

func TestV36RelationOIDs(t *testing.T) {
	const highest, high = 1<<32 - 1, 1<<31 + 5
	eachScripted(t, func(s *scripted) {
		s.send(beginOf(begin+0x100, 7), relationOf(highest, "highest"), relationOf(high, "high"), insertOf(high, "1"),
			insertOf(highest, "2"), message(byte('T'), uint32(2), byte(0), uint32(highest), uint32(high)),
			commitOf(begin+0x100, begin+0x130))
		s.told(begin + 0x130)
		changes := s.sink.Transactions()[0].Changes
		require.Equal(s, "insert high new{id=<1>}", show(&changes[0]))
		require.Equal(s, "insert highest new{id=<2>}", show(&changes[1]))
		require.Equal(s, "truncate highest, high", show(&changes[2]))
		require.EqualValues(s, high, changes[0].Relation.OID)
		require.EqualValues(s, highest, changes[1].Relation.OID)
	})
}
