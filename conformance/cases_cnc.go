package conformance

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

// claimPatience is how long a claim may wait for a client stream.
func (t *Trial) claimPatience() time.Duration {
	if t.session.o.Effort == Quick {
		return time.Second
	}
	return 3 * time.Second
}

func cnc(id, title, reason string, run func(*Trial), rules ...string) Case {
	return Case{
		ID: id, Level: Must, Profile: Core, Needs: NeedProbe, Capabilities: keeps, Rules: rules,
		Title: title, Reason: reason, Run: run,
		Expect: "each transaction once, a position that never falls, and no write after the next call's answer",
		Cause:  "a handler that goes on when its caller is gone, beside the next one",
	}
}

var cncCases = []Case{
	cnc("CNC-001", "the same unit twice at a time on two connections", "a repeat may overtake the call that it repeats", cncTwice, "S-110"),
	cnc("CNC-002", "a slow unit with a short deadline, at once again, and the next", "gRPC ends no handler: the first may commit late", cncLate, "S-110", "S-107"),
	cnc("CNC-003", "the same, redelivered in other groups with more", "a redelivery is not the call that timed out", cncLateGroups, "S-110", "S-503"),
}

func cncTwice(t *Trial) {
	table, s := t.table("keyless", "name text", "note text"), t.stream()
	other := t.open()
	for i := range 5 {
		u := s.unit(s.tx(insert(table, "a", i), insert(table, "a", i)))
		again := *u
		again.link = other
		r := s.pick(u)
		one, two := s.build(u), s.build(u)
		var errs [2]error
		var outs [2]*outcome
		var both sync.WaitGroup
		both.Go(func() { outs[0], errs[0] = s.post(t.ctx, u, r, one) })
		both.Go(func() { outs[1], errs[1] = s.post(t.ctx, &again, r, two) })
		both.Wait()
		stored := 0
		for _, err := range errs {
			a := refusal(err)
			if a.Code != codes.OK && a.Code != codes.Aborted {
				t.differs("one of two calls at a time is refused", "OK or ABORTED", a.Error())
			}
			if err == nil {
				stored++
			}
		}
		if stored == 0 {
			s.redeliver(u)
			continue
		}
		s.apply(u)
		t.verify("after the same unit twice at a time")
	}
}

// slow makes a unit of many rows and gives how long such a unit takes.
func (s *stream) slow(table *shape, rows int) (*unit, time.Duration) {
	fill := func(name string) *unit {
		var changes []change
		for i := range rows {
			changes = append(changes, insert(table, name, i))
		}
		return s.unit(s.tx(changes...))
	}
	first := fill("first")
	start := time.Now()
	s.settle(first)
	return fill("slow"), time.Since(start)
}

// hurry sends a unit with a deadline that ends in the middle of it.
func (s *stream) hurry(u *unit, whole time.Duration, part float64) {
	r := s.pick(u)
	q := s.build(u)
	ctx, cancel := context.WithTimeout(s.t.ctx, time.Duration(float64(whole)*part))
	defer cancel()
	_, _ = s.post(ctx, u, r, q)
}

func (t *Trial) manyRows() int {
	return map[Effort]int{Quick: 2000, Normal: 20000, Thorough: 20000}[t.session.o.Effort]
}

func cncLate(t *Trial) {
	table, s := t.table("keyless", "name text", "note text"), t.stream()
	u, whole := s.slow(table, t.manyRows())
	for _, part := range []float64{0.3, 0.55, 0.8} {
		s.hurry(u, whole, part)
		s.claim()
		s.redeliver(u)
		u = s.unit(s.tx(u.txs[0].changes...))
	}
	s.deliver(s.tx(insert(table, "next", null)))
	t.steady(s)
}

func cncLateGroups(t *Trial) {
	table, s := t.table("keyless", "name text", "note text"), t.stream()
	u, whole := s.slow(table, t.manyRows())
	for _, part := range []float64{0.35, 0.6, 0.85} {
		s.hurry(u, whole, part)
		s.claim()
		txs := u.txs
		for i := range 10 {
			txs = append(txs, s.tx(insert(table, "more", i)))
		}
		if s.batches() {
			again := s.unit(txs...)
			again.uncounted = true
			s.settle(again)
		} else {
			s.redeliver(s.unit(txs[0]))
			s.deliver(txs[1:]...)
		}
		u = s.unit(s.tx(u.txs[0].changes...))
	}
	t.steady(s)
}

// steady watches that nothing changes any more.
func (t *Trial) steady(s *stream) {
	watch := map[Effort]time.Duration{Quick: 300 * time.Millisecond, Normal: 3 * time.Second, Thorough: 5 * time.Second}[t.session.o.Effort]
	for end := time.Now().Add(watch); time.Now().Before(end); pause(t.ctx, 50) {
		s.verifyPosition("while nothing is sent")
	}
	t.verify("some time after a call that timed out")
}
