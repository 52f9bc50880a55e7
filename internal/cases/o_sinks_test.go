package cases_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
)

// witness holds each repeated transaction against the first time it came.
type witness struct {
	*sinktest.Memory
	fault func(nth int) (before bool, err error) // of a unit with transactions

	mu       sync.Mutex
	units    int
	seen     map[core.LSN]string
	repeated int
	changed  []core.LSN
}

func (a *witness) HandleBatch(ctx context.Context, u *core.Unit) (core.Ack, error) {
	if len(u.Transactions) == 0 {
		return a.Memory.HandleBatch(ctx, u)
	}
	a.mu.Lock()
	a.units++
	before, fault := a.fault(a.units)
	for i := range u.Transactions {
		tx := &u.Transactions[i]
		var text strings.Builder
		fmt.Fprint(&text, tx.XID, tx.CommitLSN, tx.CommitTime)
		for j := range tx.Changes {
			text.WriteString(show(&tx.Changes[j]))
		}
		first, again := a.seen[tx.EndLSN]
		if again {
			a.repeated++
		}
		if again && first != text.String() {
			a.changed = append(a.changed, tx.EndLSN)
		}
		a.seen[tx.EndLSN] = text.String()
	}
	a.mu.Unlock()
	if before {
		return core.Ack{}, fault
	}
	ack, err := a.Memory.HandleBatch(ctx, u)
	if fault != nil {
		return core.Ack{}, fault
	}
	return ack, err
}

// Every other answer is lost, before or after the unit took effect.
func TestO11LostAnswers(t *testing.T) {
	const transactions = 12
	each(t, func(s *scene) {
		s.sql("create table o11(id int primary key)")
		for _, route := range []route{overGRPC, inProcess} {
			a := &witness{seen: map[core.LSN]string{}, fault: func(nth int) (bool, error) {
				if nth%2 == 0 {
					return false, nil
				}
				return nth%4 == 1, errGone
			}}
			r := s.road(way{route: route, wrap: func(m *sinktest.Memory) core.Sink { a.Memory = m; return a }})
			s.sql("truncate o11")
			for i := range transactions {
				s.sql(fmt.Sprintf("insert into o11 values (%d)", i))
				r.until("it is stored", func() bool { return len(r.transactions()) == i+2 })
			}
			r.until("it is confirmed", func() bool { return r.confirmed() >= r.transactions()[transactions].EndLSN })
			r.drain()
			r.audit()
			a.mu.Lock()
			require.NotZero(s, a.repeated)
			require.Empty(s, a.changed, "a repeated transaction is the same, to the byte")
			a.mu.Unlock()
		}
	})
}

// picky refuses a row for good.
type picky struct {
	*sinktest.Memory
	mended atomic.Bool
}

func (p *picky) HandleTransaction(ctx context.Context, u *core.Unit) (core.Ack, error) {
	return p.unless(u, func() (core.Ack, error) { return p.Memory.HandleTransaction(ctx, u) })
}

func (p *picky) HandleBatch(ctx context.Context, u *core.Unit) (core.Ack, error) {
	return p.unless(u, func() (core.Ack, error) { return p.Memory.HandleBatch(ctx, u) })
}

func (p *picky) unless(u *core.Unit, take func() (core.Ack, error)) (core.Ack, error) {
	for i := range u.Transactions {
		for j := range u.Transactions[i].Changes {
			if c := &u.Transactions[i].Changes[j]; c.Relation != nil && string(c.New.Value(0).Text) == "3" && c.Relation.Name == "o12" && !p.mended.Load() {
				return core.Ack{}, &core.Refusal{Reason: core.ReasonUnitRejected, Text: "secret!"}
			}
		}
	}
	return take()
}

func TestO12OneBadRow(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table o12(id int primary key)")
		var roads []*road
		var sinks []*picky
		for _, mode := range []pipeline.Mode{pipeline.ModeTransaction, pipeline.ModeBatch} {
			p := &picky{}
			roads = append(roads, s.road(way{mode: mode, wrap: func(m *sinktest.Memory) core.Sink { p.Memory = m; return p }}))
			sinks = append(sinks, p)
		}
		s.sql("insert into o12 values (1)", "insert into o12 values (2)")
		for _, r := range roads {
			r.until("two are stored", func() bool { return len(r.transactions()) == 2 })
		}
		for id := 3; id <= 5; id++ {
			s.sql(fmt.Sprintf("insert into o12 values (%d)", id))
		}
		for i, r := range roads {
			for range 2 { // a restart skips nothing either
				halt := r.halts(core.HaltSinkRejected)
				require.NotContains(s, halt.Error(), "secret!")
				require.Len(s, r.transactions(), 2)
				require.LessOrEqual(s, r.confirmed(), r.sink.Stored().Position)
				r.waits = true
				r.begin()
			}
			r.halts(core.HaltSinkRejected)
			sinks[i].mended.Store(true)
			r.begin()
		}
		s.done()
		for _, r := range roads {
			require.Len(s, r.transactions(), 5)
		}
	})
}
