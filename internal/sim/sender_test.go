package sim

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// walsender sends the WAL of one START_REPLICATION and takes status updates.
type walsender struct {
	b     *backend
	rng   *rand.Rand
	enc   encoder
	next  int      // index of the record to send
	sent  core.LSN // all that ends at or before it was sent
	flush atomic.Uint64
	// heard is when the client was heard last, in nanoseconds.
	heard atomic.Int64
	told  chan struct{} // a status update came
	ended chan struct{} // the client has left, or ended the copy
	polite,
	finished bool
	flow      flow
	streaming bool // transactions in progress are asked for
	streams   map[*record]*inProgress
}

// flow counts bytes that were sent and are not durable at the sink.
type flow struct {
	total, settled int
	marks          []flowMark
}

type flowMark struct {
	end   core.LSN
	total int
}

func (b *backend) startReplication(query string) bool {
	s := b.s
	w := s.w
	_, rest, _ := strings.Cut(query, "LOGICAL ")
	position, _, _ := strings.Cut(rest, " ")
	at, err := core.ParseLSN(position)
	w.mu.Lock()
	switch {
	case err != nil:
		w.mu.Unlock()
		return b.fail("ERROR", "42601", "syntax")
	case !s.slot.present:
		w.mu.Unlock()
		return b.fail("ERROR", "42704", "no such slot")
	case s.slot.holder != nil:
		w.mu.Unlock()
		return b.fail("ERROR", "55006", "slot is active")
	}
	s.slot.holder, b.walsends, b.gen.held = b, true, true
	from := max(at, s.slot.confirmed)
	w.note("walsender %d from %s (asked %s, confirmed %s)", b.pid, from, at, s.slot.confirmed)
	sender := &walsender{
		b: b, rng: rand.New(rand.NewPCG(w.seed, uint64(b.pid))), enc: encoder{wal: w.wal, described: map[int]int{}},
		streaming: strings.Contains(query, "streaming 'on'"), streams: map[*record]*inProgress{},
		next: w.wal.from(from), sent: from, told: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	stopping := s.stopping
	w.mu.Unlock()
	return sender.run(stopping)
}

// run streams until the client or the server ends it, and reports whether the client
// takes commands again.
func (s *walsender) run(stopping <-chan struct{}) bool {
	if _, err := s.b.conn.Write([]byte{'W', 0, 0, 0, 7, 0, 0, 0}); err != nil {
		return false
	}
	s.heard.Store(time.Now().UnixNano())
	w := s.b.s.w
	w.spawn(s.watch)
	sent := make(chan struct{})
	w.spawn(func() {
		defer close(sent)
		s.send(stopping)
	})
	s.receive()
	close(s.ended)
	<-sent
	w.mu.Lock()
	s.b.walsends = false
	if s.b.s.slot.holder == s.b {
		s.b.s.slot.holder = nil
		w.note("slot released by %d", s.b.pid)
	}
	w.mu.Unlock()
	if !s.polite || s.finished {
		return false
	}
	s.b.pg.Send(&pgproto3.CopyDone{})
	s.b.pg.Send(&pgproto3.CommandComplete{CommandTag: []byte("COPY 0")})
	s.b.pg.Send(&pgproto3.CommandComplete{CommandTag: []byte("START_REPLICATION")})
	return s.b.ready()
}

// watch ends the connection of a client that was not heard for wal_sender_timeout.
func (s *walsender) watch() {
	for {
		silent := time.Since(time.Unix(0, s.heard.Load()))
		if silent >= senderTimeout {
			s.b.s.w.log("walsender %d: timeout", s.b.pid)
			_ = s.b.conn.Close()
			return
		}
		if !sleepOr(senderTimeout-silent, s.ended) {
			return
		}
	}
}

// receive takes what the client sends until it ends the copy or leaves.
func (s *walsender) receive() {
	for {
		m, err := s.b.pg.Receive()
		if err != nil {
			return
		}
		s.heard.Store(time.Now().UnixNano())
		switch m := m.(type) {
		case *pgproto3.CopyData:
			const size = 1 + 4*8 + 1
			if len(m.Data) != size || m.Data[0] != 'r' {
				s.b.s.w.fail("walsender %d was sent %d bytes that are no status update", s.b.pid, len(m.Data))
				return
			}
			flush := core.LSN(be.Uint64(m.Data[9:]))
			if be.Uint64(m.Data[1:]) != uint64(flush) || be.Uint64(m.Data[17:]) != uint64(flush) {
				s.b.s.w.fail("write, flush and apply of a status update differ")
			}
			s.b.s.confirm(s, flush)
		case *pgproto3.CopyDone:
			s.polite = true
			return
		default:
			return
		}
	}
}

// confirm takes a status update. This is where I1 is judged.
func (s *server) confirm(from *walsender, flush core.LSN) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.judgeStatus(from, flush)
	if flush > s.slot.confirmed {
		s.slot.confirmed = flush
	}
	from.flush.Store(uint64(flush))
	select {
	case from.told <- struct{}{}:
	default:
	}
}

// send writes records as they come, and keepalives in between.
func (s *walsender) send(stopping <-chan struct{}) {
	w := s.b.s.w
	for {
		w.mu.Lock()
		var frames [][]byte
		var r record
		var blocks []byte
		more := s.next < len(w.wal.records)
		if more {
			r = *w.wal.records[s.next]
			blocks = s.inProgress()
			if frames = s.end(w.wal.records[s.next]); frames == nil {
				frames = s.enc.record(&r, s.b.s.major < 15)
			}
			s.next++
		}
		changed := w.wal.changed
		w.mu.Unlock()
		if len(blocks) > 0 {
			if _, err := s.b.conn.Write(blocks); err != nil {
				return
			}
		}
		if more {
			if !s.frames(&r, frames) {
				return
			}
			s.sent = r.end
			continue
		}
		if !s.idle(changed, stopping) {
			return
		}
	}
}

// frames writes a record, and now and then a keepalive in the middle of a transaction,
// whose WAL end is the start of its commit record.
func (s *walsender) frames(r *record, frames [][]byte) bool {
	var b []byte
	flush := func() bool {
		if len(b) == 0 {
			return true
		}
		s.flow.total += len(b)
		_, err := s.b.conn.Write(b)
		b = b[:0]
		return err == nil
	}
	for i, frame := range frames {
		if i > 0 && r.kind == commit && s.rng.IntN(24) == 0 {
			b = waltest.AppendKeepalive(b, uint64(r.start), s.rng.IntN(2) == 0)
		}
		b = append(b, frame...)
		if len(b) > 4<<10 && !flush() {
			return false
		}
	}
	if !flush() {
		return false
	}
	if len(frames) > 0 {
		s.flow.marks = append(s.flow.marks, flowMark{r.end, s.flow.total})
		s.b.s.w.judgeFlow(&s.flow)
	}
	if s.rng.IntN(16) == 0 { // not caught up, and still a word
		return s.keepalive(r.end, s.rng.IntN(3) == 0)
	}
	return true
}

func (s *walsender) keepalive(at core.LSN, reply bool) bool {
	_, err := s.b.conn.Write(waltest.AppendKeepalive(nil, uint64(at), reply))
	return err == nil
}

// idle waits for more WAL. A client that has not confirmed all of it is told where it
// ends; one that was silent for half the timeout is asked to answer; and a server that
// shuts down repeats itself until it hears that all is done.
func (s *walsender) idle(changed, stopping <-chan struct{}) bool {
	done := core.LSN(s.flush.Load()) >= s.sent
	wait := time.Duration(0)
	select {
	case <-stopping:
		if done {
			s.finished = true
			_, _ = s.b.conn.Write([]byte{'c', 0, 0, 0, 4, 'C', 0, 0, 0, 11, 'C', 'O', 'P', 'Y', ' ', '0', 0})
			_ = s.b.conn.Close()
			return false
		}
		stopping = nil
		wait = 10 * time.Millisecond
		if !s.keepalive(s.sent, s.rng.IntN(8) == 0) {
			return false
		}
	default:
		silent := time.Since(time.Unix(0, s.heard.Load()))
		ask := silent >= senderTimeout/2
		wait = max(senderTimeout/2-silent, 100*time.Millisecond)
		if (!done || ask) && !s.keepalive(s.sent, ask) {
			return false
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-changed:
	case <-s.told:
	case <-timer.C:
	case <-stopping:
	case <-s.ended:
		return false
	}
	return true
}
