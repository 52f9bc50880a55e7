package assembler

import (
	"fmt"
	"slices"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// simulated is a transaction at the source: a tree of savepoints, and its rows in order.
type simulated struct {
	xid       uint32
	open      []*savepoint // from the top down; the first is the transaction itself
	all       []*savepoint
	rows      []simulatedRow
	started   bool
	described bool
}

type savepoint struct {
	xid    uint32
	parent *savepoint
	rows   int // streamed
	gone   bool
}

type simulatedRow struct {
	in   *savepoint
	text string
}

// source writes what a server would send for random sessions.
type source struct {
	t    *rapid.T
	push func(m ...pgoutput.Message)
	xid  uint32
	lsn  core.LSN
	rows int
	open []*simulated
	want []string
}

func (s *source) id() uint32 {
	s.xid++
	if s.xid < 3 {
		s.xid = 3 // as Postgres does when ids wrap around
	}
	return s.xid
}

func (s *source) text() string {
	s.rows++
	return fmt.Sprintf("%c", 'A'+rune(s.rows%20))
}

// stream sends a block of rows in the savepoint that is open.
func (s *source) stream(tx *simulated, n int) {
	start := streamStart(tx.xid)
	start.First = !tx.started
	tx.started = true
	messages := []pgoutput.Message{start}
	in := tx.open[len(tx.open)-1]
	for range n {
		if in.xid == 0 {
			in.xid = s.id()
		}
		if !tx.described {
			messages, tx.described = append(messages, of(in.xid, table(tOID, 'd', "id*"))), true
		}
		row := simulatedRow{in, s.text()}
		tx.rows, in.rows = append(tx.rows, row), in.rows+1
		messages = append(messages, of(in.xid, insert(tOID, row.text)))
	}
	s.push(append(messages, streamStop())...)
}

// rollBack ends the savepoints from the i-th open one on: each of which rows were sent is
// named, children first, released ones too.
func (s *source) rollBack(tx *simulated, i int) {
	target := tx.open[i]
	below := func(sp *savepoint) bool {
		for ; sp != nil; sp = sp.parent {
			if sp == target {
				return true
			}
		}
		return false
	}
	for _, sp := range slices.Backward(tx.all) {
		if below(sp) && !sp.gone {
			sp.gone = true
			if sp.xid != 0 && (sp.rows > 0 || sp.xid == tx.xid) {
				s.push(streamAbort(tx.xid, sp.xid))
				tx.described = false
			}
		}
	}
	tx.open = tx.open[:i]
}

func (s *source) commit(tx *simulated) {
	line := "tx"
	for _, row := range tx.rows {
		if !row.in.gone {
			line += " " + row.text
		}
	}
	s.want = append(s.want, line)
	s.lsn += 100
	s.push(streamCommit(tx.xid, s.lsn))
}

func (s *source) step() {
	action := rapid.IntRange(0, 9).Draw(s.t, "action")
	if len(s.open) == 0 || action == 0 && len(s.open) < 5 {
		top := &savepoint{xid: s.id()}
		s.open = append(s.open, &simulated{xid: top.xid, open: []*savepoint{top}, all: []*savepoint{top}})
	}
	i := rapid.IntRange(0, len(s.open)-1).Draw(s.t, "transaction")
	tx := s.open[i]
	switch {
	case action == 1:
		s.lsn += 100
		row := s.text()
		s.want = append(s.want, "tx "+row)
		s.push(begin(s.lsn), table(tOID, 'd', "id*"), insert(tOID, row), commit(s.lsn))
	case action < 6:
		s.stream(tx, rapid.IntRange(0, 6).Draw(s.t, "rows"))
	case action == 6:
		sp := &savepoint{parent: tx.open[len(tx.open)-1]}
		tx.open, tx.all = append(tx.open, sp), append(tx.all, sp)
	case action == 7 && len(tx.open) > 1:
		at := rapid.IntRange(1, len(tx.open)-1).Draw(s.t, "savepoint")
		if rapid.Bool().Draw(s.t, "release") {
			tx.open = tx.open[:at]
		} else {
			s.rollBack(tx, at)
		}
	case action >= 8 && tx.started:
		if rapid.IntRange(0, 3).Draw(s.t, "end") == 0 {
			s.rollBack(tx, 0)
		} else {
			s.commit(tx)
		}
		s.open = slices.Delete(s.open, i, i+1)
	}
}

// Whatever sessions do, what comes out is what they committed, in memory of the size that
// was given, and no file is left. Ids wrap around on the way.
func TestRandomSessions(t *testing.T) {
	spilled, cut := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		resident := rapid.SampledFrom([]int{1, 60, 200, 1000, 1 << 20}).Draw(rt, "resident")
		spill := &memorySpill{}
		tale := &story{t: t, a: New(Options{Slab: 256, Resident: resident, Spill: spill})}
		first := rapid.SampledFrom([]uint32{100, 1<<32 - 4, 1<<31 - 4}).Draw(rt, "first id")
		s := &source{t: rt, xid: first, push: func(m ...pgoutput.Message) {
			before := tale.a.streams.held.resident
			tale.push(m...)
			require.LessOrEqual(rt, tale.a.streams.held.resident, resident)
			if m[0].Kind == pgoutput.KindStreamAbort && m[0].XID != m[0].SubXID && tale.a.streams.held.resident < before {
				cut++
			}
		}}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			s.step()
		}
		require.Equal(rt, s.want, tale.lines)
		tale.a.Close()
		require.Zero(rt, spill.open)
		open, inMemory := tale.a.InProgress()
		require.Zero(rt, open+inMemory)
		spilled += spill.blocks
	})
	require.NotZero(t, spilled)
	require.NotZero(t, cut, "no savepoint was cut off at the end of a tail")
}
