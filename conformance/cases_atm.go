package conformance

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func atm(id, title, reason string, needs Need, run func(*Trial), rules ...string) Case {
	return Case{
		ID: id, Level: Must, Profile: Core, Needs: NeedProbe | needs, Rules: rules,
		Title: title, Reason: reason, Run: run,
		Expect: "rows and position are both as before the call, or both as after it; made again, the call gives the same end",
		Cause:  "rows and position in two store transactions",
	}
}

var atmCases = []Case{
	atm("ATM-001", "crash points of a unit: an update and two inserts; of a replayed overlap",
		"a crash between rows and position loses a transaction or repeats it", NeedCrash, atmUnit, "S-102", "S-113"),
	atm("ATM-002", "crash points of a unit over three tables with a truncate",
		"what a store commits by table is torn by a crash", NeedCrash, atmTables, "S-102", "S-501"),
	{
		ID: "ATM-003", Level: Must, Profile: Large, Needs: NeedProbe | NeedCrash,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_LARGE_TRANSACTION},
		Rules:        []string{"S-102", "S-601"},
		Title:        "crash points of a transaction in frames", Reason: "staged frames must not survive as rows",
		Expect: "both before, or both after", Cause: "frames that are applied as they come", Run: atmLarge,
	},
	{
		ID: "ATM-004", Level: Must, Profile: Core, Needs: NeedProbe | NeedLifecycle, Rules: []string{"S-102"},
		Title:   "kills spread over the time of a call",
		Reason:  "where calls cannot be counted, time is the only knife",
		LeftOut: "a way to do ATM-001 to ATM-003, which say \"sampled\" then, and no case of its own",
	},
	{
		ID: "ATM-005", Level: Must, Profile: Core, Needs: NeedProbe | NeedProxy, Rules: []string{"S-102", "S-101"},
		Title:  "the connection to the store is cut after the n-th write",
		Reason: "a commit whose answer was lost is neither done nor undone to who sent it",
		Expect: "both before, or both after, and the sink goes on by itself",
		Cause:  "a retry inside the sink, or a connection that is never made anew", Run: atmCut,
	},
	atm("ATM-006", "a broken change in the middle of a unit", "a refused unit must leave nothing, or its replay repeats the part",
		0, atmMiddle, "S-113", "S-116"),
	{
		ID: "ATM-007", Level: Should, Profile: Core, Needs: NeedProbe, Kind: sinkv1.SinkKind_SINK_KIND_STATE_MIRROR,
		Rules: []string{"S-501"}, Title: "somebody reads while a large unit is stored",
		Reason: "a reader should see transactions whole", Expect: "all of the unit, or nothing",
		Cause: "autocommit", Run: atmReader,
	},
	atm("ATM-008", "crash, then the same transactions in other groups",
		"a recovery that trusts what was staged commits half a unit", NeedCrash, atmRegroup, "S-102", "S-503"),
	{
		ID: "ATM-009", Level: Must, Profile: Core, Title: "crash points of an idempotent apply",
		LeftOut: "this contract knows no mode in which rows and position are stored apart",
	},
	{
		ID: "ATM-010", Level: Must, Profile: Core, Title: "crash points of an apply at least once",
		LeftOut: "this contract knows no such mode where the sink keeps the position; see LIB-009",
	},
	{
		ID: "ATM-011", Level: Must, Profile: Core, Needs: NeedProbe | NeedLifecycle, Capabilities: keeps, Rules: []string{"S-101", "S-102", "S-601"},
		Title:  "kills in the middle of five thousand changes, of a unit and of frames before their commit",
		Reason: "a store that commits now and then on its way is torn by a crash, and small units do not show it",
		Expect: "rows and position agree each time; of frames nothing", Cause: "a commit after every so many rows", Run: atmKilled,
	},
	{
		ID: "ATM-012", Level: Must, Profile: Core, Needs: NeedProbe, Capabilities: keeps, Rules: []string{"S-102", "S-302"},
		Kind:   sinkv1.SinkKind_SINK_KIND_STATE_MIRROR,
		Title:  "somebody asks for the position while a large unit is stored, and reads then",
		Reason: "the sidecar goes on from a position that it is told, and confirms it to the source",
		Expect: "a position that is told has its rows", Cause: "the position is answered from memory, ahead of the commit", Run: atmTold,
	},
}

// mix is the unit whose crash points are visited: an update and two inserts.
func mix(s *stream, table *shape) *txn {
	return s.tx(update(table, 1, "new", "new"), insert(table, 2, "b", null), insert(table, 3, "c", "c"))
}

func atmUnit(t *Trial) {
	t.crash("unit of an update and two inserts", func() *scene {
		table, s := t.basic(), t.stream()
		s.deliver(s.tx(insert(table, 1, "old", "old")))
		return t.delivery(s, mix(s, table))
	})
	atmOverlap(t)
}

// atmCut has a row of a table without a key: there a unit that is stored twice shows.
func atmCut(t *Trial) {
	t.crash("unit of an update, an insert and a row without a key", func() *scene {
		table, s := t.basic(), t.stream()
		loose := t.shaped(t.schema, "keyless", sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL, "name text")
		s.deliver(s.tx(insert(table, 1, "old", "old")))
		return t.delivery(s, s.tx(update(table, 1, "new", "new"), insert(table, 2, "b", null), insert(loose, "once")))
	})
	atmOverlap(t)
}

func atmOverlap(t *Trial) {
	if !t.has(sinkv1.Capability_CAPABILITY_BATCH) {
		return
	}
	t.crash("overlap of two transactions, one of them stored", func() *scene {
		table, s := t.basic(), t.stream()
		first := s.tx(insert(table, 1, "old", null))
		s.deliver(first)
		return t.delivery(s, first, mix(s, table))
	})
}

func atmTables(t *Trial) {
	t.crash("unit over three tables with a truncate", func() *scene {
		s := t.stream()
		a, b := t.basic(), t.table("second", "id int4 key", "name text")
		c := t.table("third", "id int4 key", "name text")
		s.deliver(s.tx(insert(a, 1, "a", null), insert(b, 1, "b"), insert(c, 1, "c"), insert(c, 2, "c")))
		return t.delivery(s, s.tx(insert(a, 2, "a", "a"), truncate(c), remove(b, 1), insert(b, 2, "b"), insert(c, 3, "new")))
	})
}

func atmLarge(t *Trial) {
	t.crash("transaction in frames", func() *scene {
		table, s := t.basic(), t.stream()
		s.deliver(s.tx(insert(table, 1, "old", "old")))
		tx := mix(s, table)
		frames := s.large(tx, 1)
		u := &unit{txs: []*txn{tx}, checkpoint: tx.end}
		return &scene{
			stream: s,
			act:    func(ctx context.Context) error { return t.frames(ctx, frames...) },
			done:   func() { s.apply(u) },
			redo:   func() { s.claim(); s.deliverLarge(tx, 2) },
		}
	})
}

func atmMiddle(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	for _, size := range []int{100, 3000} { // what is committed in thousands is torn behind them
		var changes []change
		for i := range size {
			changes = append(changes, insert(table, size+i, t.canary("b"), null))
		}
		u := s.unit(s.tx(changes...))
		u.edit = func(r *request) { r.transactions[0].Changes[size-50].RelationIndex = 77 }
		s.byEach(func(r road) {
			s.refused(u, codes.InvalidArgument, "")
			t.verify("after a unit that was refused in its middle by " + calls[r])
		})
		u.edit = nil
		s.settle(u)
		t.verify("after the same unit, whole")
	}
}

// longRows is how many changes a unit has that a store may be tempted to commit in parts.
const longRows = 5000

// atmKilled kills by the clock: in so long a unit the moment hardly matters. Frames are
// killed before their commit frame is sent, so there is nothing to guess.
func atmKilled(t *Trial) {
	table, s := t.basic(), t.stream()
	start := time.Now()
	s.settle(s.rewrite(table, longRows, "first"))
	whole := time.Since(start)
	s.byEach(func(r road) {
		if r == roadLarge {
			s.killedFrames(table, whole)
			return
		}
		for _, part := range []float64{0.5, 0.8} {
			u := s.rewrite(table, longRows, part)
			q := s.build(u)
			s.pick(u)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = s.post(t.ctx, u, r, q)
			}()
			pause(t.ctx, int(part*float64(whole.Milliseconds())))
			t.kill()
			<-done
			t.restart()
			s.claim()
			t.decided(s, u)
		}
	})
}

// killedFrames kills the sink when it was sent all but the commit frame.
func (s *stream) killedFrames(table *shape, whole time.Duration) {
	t := s.t
	u := s.rewrite(table, longRows, "in frames")
	_, err := t.sendFrames(t.ctx, func() { pause(t.ctx, int(whole.Milliseconds())); t.kill() }, s.large(u.txs[0], 100)...)
	if err == nil {
		t.failed("a transaction in frames is answered OK by a sink that was killed before the commit frame")
	}
	t.restart()
	s.claim()
	if s.durable == nil || *s.durable >= u.checkpoint {
		t.failed("frames without their commit frame moved the position")
	}
	t.verify("after a kill before the commit frame")
	s.settle(u)
	t.verify("after the whole transaction in frames")
}

func atmTold(t *Trial) {
	table, s := t.table("wide", "id int4 key", "name text"), t.stream()
	s.deliver(s.tx(insert(table, -1, "a")))
	rows := 1
	s.byEach(func(r road) {
		var changes []change
		for i := range longRows {
			changes = append(changes, insert(table, rows+i, "b"))
		}
		rows += longRows
		u := s.unit(s.tx(changes...))
		s.pick(u)
		q := s.build(u)
		var out *outcome
		var err error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			out, err = s.post(t.ctx, u, r, q)
		}()
		asked := s.whileStored(ended, u.checkpoint, table, rows)
		<-ended
		if err != nil {
			t.failed("%s of %d rows is refused: %v", u.called, longRows, err)
		}
		t.note("%s: asked %d times meanwhile", u.called, asked)
		s.accept(u, out, t.model.counts)
		t.verify("after a large unit by " + u.called)
	})
}

// whileStored asks for the position until a call ends, and fails where it is told before all
// rows can be read. A sink may let such a question wait for the call.
func (s *stream) whileStored(ended <-chan struct{}, checkpoint uint64, table *shape, rows int) (asked int) {
	t, name := s.t, table.name()
	for {
		select {
		case <-ended:
			return asked
		default:
		}
		r, err := s.tryRead(t.ctx)
		if err == nil && r.GetPosition() >= checkpoint {
			have, err := t.session.o.Probe.ReadTable(t.ctx, name.schema, name.table)
			if err == nil && len(have.Rows) != rows {
				<-ended
				t.failed("Checkpoint tells the position of a unit, and a reader saw %d of %d rows then", len(have.Rows), rows)
			}
		}
		asked++
		pause(t.ctx, 2)
	}
}

func atmReader(t *Trial) {
	rows := map[Effort]int{Quick: 1500, Normal: 20000, Thorough: 20000}[t.session.o.Effort]
	table, s := t.table("wide", "id int4 key", "name text"), t.stream()
	s.deliver(s.tx(insert(table, -1, "a")))
	var changes []change
	for i := range rows {
		changes = append(changes, insert(table, i, "b"))
	}
	u := s.unit(s.tx(changes...))
	r, q := s.pick(u), s.build(u)
	var out *outcome
	var err error
	var done sync.WaitGroup
	ended := make(chan struct{})
	done.Go(func() {
		out, err = s.post(t.ctx, u, r, q)
		close(ended)
	})
	reads, torn := 0, -1
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		default:
		}
		have, readErr := t.session.o.Probe.ReadTable(t.ctx, table.name().schema, table.name().table)
		if readErr == nil {
			reads++
			if n := len(have.Rows); n != 1 && n != rows+1 {
				torn = n
			}
		}
		pause(t.ctx, 5)
	}
	done.Wait()
	if err != nil {
		t.failed("%s of %d rows is refused: %v", u.called, rows, err)
	}
	if torn >= 0 {
		t.failed("a reader saw %d of %d rows", torn, rows+1)
	}
	t.note("%d reads meanwhile", reads)
	s.accept(u, out, t.model.counts)
	t.verify("after a large unit")
}

func atmRegroup(t *Trial) {
	t.crash("two transactions, redelivered one by one with a third", func() *scene {
		table, s := t.basic(), t.stream()
		s.deliver(s.tx(insert(table, 1, "old", "old")))
		one, two := s.tx(insert(table, 5, "five", null), remove(table, 1)), s.tx(insert(table, 6, "six", null), insert(table, 7, "seven", null))
		sc := t.delivery(s, one, two)
		if !s.batches() {
			sc = t.delivery(s, one)
			two = nil
		}
		sc.redo = func() {
			s.claim()
			s.deliver(one)
			if s.batches() {
				s.deliver(two)
			}
		}
		return sc
	})
}
