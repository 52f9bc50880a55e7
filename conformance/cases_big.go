package conformance

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

var bigCases = []Case{
	{
		ID: "BIG-001", Level: Must, Profile: Core, Needs: NeedProbe, Rules: []string{"S-206", "L-101"},
		Title:  "a request of exactly max_request_bytes, or 3 MiB",
		Reason: "the sidecar grows requests to what the sink says",
		Expect: "OK", Cause: "the server's receive limit was left at its default", Run: bigExact,
	},
	{
		ID: "BIG-002", Level: Must, Profile: Core, Needs: NeedProbe, Rules: []string{"L-101", "S-113"},
		Title:  "a request of 64 KiB more than max_request_bytes",
		Reason: "too large must look so, or the sidecar repeats it for ever",
		Expect: "OK, or RESOURCE_EXHAUSTED without RetryInfo and nothing applied; the next call is fine",
		Cause:  "another code, or a connection that breaks", Run: bigAbove,
	},
	{
		ID: "BIG-003", Level: Must, Profile: Core, Needs: NeedProbe, Rules: []string{"L-105"},
		Title:  "a table of 1,600 columns",
		Reason: "Postgres allows them", Expect: "OK and exact, or SCHEMA_DECLINED before anything is stored",
		Cause: "a store with fewer columns, or placeholders", Run: bigWide,
	},
	{
		ID: "BIG-004", Level: Must, Profile: Large, Needs: NeedProbe,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_LARGE_TRANSACTION}, Rules: []string{"S-601", "S-603", "P-601"},
		Title:  "a large transaction in many frames, with a pause between two; another that never ends",
		Reason: "a million changes are one transaction, and memory is not their measure",
		Expect: "OK and exact", Cause: "a deadline of the sink's own, or all of it in memory", Run: bigFrames,
	},
	{
		ID: "BIG-005", Level: Must, Profile: Large, Needs: NeedProbe,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_LARGE_TRANSACTION},
		Rules:        []string{"S-603", "S-604", "S-606", "S-607"},
		Title:        "cancelled, half-closed, counts wrong, frames out of order or unknown",
		Reason:       "what did not end with a commit frame never happened",
		Expect:       "INVALID_ARGUMENT, and nothing stored", Cause: "the end of the stream is taken for its commit", Run: bigBroken,
	},
	{
		ID: "BIG-006", Level: Must, Profile: Large, Title: "a value of 64 MiB in chunks",
		LeftOut: "this contract has no values in chunks: a row above the limit halts the sidecar (L-113)",
	},
	{
		ID: "BIG-007", Level: Must, Profile: Large, Needs: NeedProbe,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_LARGE_TRANSACTION, sinkv1.Capability_CAPABILITY_SCHEMA_CHANGE},
		Rules:        []string{"S-607"},
		Title:        "a new shape inside of a large transaction",
		Reason:       "a schema change is a frame there, and not counted among the relations",
		Expect:       "rows before and after it are right", Cause: "relation_index counts the wrong frames", Run: bigShape,
	},
}

// sized makes a unit whose request has exactly this many bytes.
func (s *stream) sized(table *shape, size int) *unit {
	u := s.unit(s.tx(insert(table, 1, "a", "")))
	pad := func(n int) {
		u.txs[0].changes[0] = insert(table, 1, "a", filler()[:n])
		s.sequence--
	}
	u.road = s.pick(u)
	measure := func() int {
		q := s.build(u)
		if u.road == roadPrepared {
			return proto.Size(&sinkv1.PrepareRequest{
				Context: q.context, Gid: s.gid(), CheckpointLsn: q.checkpoint, Unit: &sinkv1.PrepareRequest_Transactions{
					Transactions: &sinkv1.TransactionsUnit{Relations: q.relations, Transactions: q.transactions},
				},
			})
		}
		return proto.Size(&sinkv1.HandleBatchRequest{
			Context: q.context, ExpectedCheckpoint: q.expected, CheckpointLsn: q.checkpoint,
			Relations: q.relations, Transactions: q.transactions,
		})
	}
	have := measure()
	n := max(0, size-have-64)
	for range 40 {
		pad(n)
		have = measure()
		if have == size {
			break
		}
		n += size - have
	}
	s.sequence--
	return u
}

// filler is made when a case needs it: this package is part of the program that streams.
var filler = sync.OnceValue(func() string { return strings.Repeat("0123456789abcdef", 5<<20)[:70<<20] })

func (t *Trial) maxRequest() int {
	if n := t.session.caps.GetLimits().GetMaxRequestBytes(); n > 0 {
		return int(min(n, sinkv1.MaxReceiveBytes))
	}
	return sinkv1.DefaultMaxRequestBytes
}

func bigExact(t *Trial) {
	table, s := t.basic(), t.stream()
	s.settle(s.sized(table, t.maxRequest()))
	t.verify("after a request of the largest size")
}

func bigAbove(t *Trial) {
	table, s := t.basic(), t.stream()
	u := s.sized(table, t.maxRequest()+64<<10)
	before := t.model.counts
	out, err := s.send(t.ctx, u)
	if err == nil {
		s.accept(u, out, before)
		t.note("accepts more than it says")
	} else if a := refusal(err); a.Code != codes.ResourceExhausted || a.retry {
		t.differs("a request above max_request_bytes is refused in another way", "RESOURCE_EXHAUSTED without RetryInfo", a.Error())
	}
	t.verify("after a request above the largest size")
	s.deliver(s.tx(insert(table, 2, "next", null)))
	t.verify("after the next request")
}

func bigWide(t *Trial) {
	words := []string{"id int4 key"}
	row := []any{1}
	for i := 1; i < sinkv1.MaxColumns; i++ {
		words = append(words, fmt.Sprintf("c%d text", i))
		row = append(row, strconv.FormatInt(int64(i), 36)) // short: Postgres itself holds a row on one page
	}
	table, s := t.table("wide", words...), t.stream()
	before := t.model.counts
	u := s.unit(s.tx(insert(table, row...)))
	out, err := s.send(t.ctx, u)
	if err != nil {
		if a := refusal(err); a.Reason != "SCHEMA_DECLINED" {
			t.differs("a table of 1,600 columns is refused in another way", "OK, or FAILED_PRECONDITION (SCHEMA_DECLINED)", a.Error())
		}
		t.note("declines tables of 1,600 columns")
		t.verify("after a declined table")
		return
	}
	s.accept(u, out, before)
	row[1599] = kept
	row[1] = "changed"
	s.deliver(s.tx(update(table, row...)))
	t.verify("in a table of 1,600 columns")
}

func bigFrames(t *Trial) {
	rows := map[Effort]int{Quick: 2200, Normal: 60000, Thorough: 1000000}[t.session.o.Effort]
	rest := map[Effort]time.Duration{Quick: 20 * time.Millisecond, Normal: 2 * time.Second, Thorough: 30 * time.Second}[t.session.o.Effort]
	table, s := t.table("many", "id int4 key", "name text"), t.stream()
	text := strings.Repeat("two hundred bytes,", 11)
	var changes []change
	for i := range rows {
		changes = append(changes, insert(table, i, text))
	}
	s.unfinished(table)
	tx := s.tx(changes...)
	frames := s.large(tx, 1000)
	before := t.model.counts
	out, err := t.sendFrames(t.ctx, func() { pause(t.ctx, int(rest.Milliseconds())) }, frames...)
	if err != nil {
		t.failed("a transaction of %d changes in %d frames is refused: %v", rows, len(frames), err)
	}
	s.accept(&unit{txs: []*txn{tx}, checkpoint: tx.end, called: "HandleLargeTransaction"}, out, before)
	t.note("%d changes in %d frames", rows, len(frames))
	t.verify("after a large transaction")
}

func bigBroken(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	tx := s.tx(insert(table, 2, "b", null), insert(table, 3, "c", null), insert(table, 4, "d", null))
	whole := func() []*frame { return s.large(tx, 1) }
	check := func(what string, edit func([]*frame) []*frame) {
		s.refusedLarge(codes.InvalidArgument, "", edit(whole())...)
		t.verify("after frames " + what)
	}
	check("without a commit", func(f []*frame) []*frame { return f[:len(f)-1] })
	check("with a wrong change_count", func(f []*frame) []*frame {
		f[len(f)-1].GetCommit().ChangeCount++
		return f
	})
	check("with a gap", func(f []*frame) []*frame { return append(f[:3:3], f[4:]...) })
	check("with a wrong first_change_index", func(f []*frame) []*frame {
		f[4].GetChanges().FirstChangeIndex = 7
		return f
	})
	check("with a second begin", func(f []*frame) []*frame {
		return append(append(f[:3:3], whole()[0]), f[3:]...)
	})
	check("without a begin", func(f []*frame) []*frame { return f[1:] })
	check("with an unset frame", func(f []*frame) []*frame {
		return append(append(f[:3:3], &frame{}), f[3:]...)
	})
	check("behind the commit", func(f []*frame) []*frame { return append(f, largeRelation(table.relation)) })
	frames := whole()
	ctx, cancel := context.WithCancel(t.ctx)
	_, err := t.sendFrames(ctx, func() { pause(t.ctx, 20); cancel() }, frames...)
	if err == nil {
		t.note("the commit came before the cancel")
		s.apply(&unit{txs: []*txn{tx}, checkpoint: tx.end})
	}
	s.claim()
	if s.durable != nil && *s.durable >= tx.end {
		t.failed("a cancelled transaction without its commit frame moved the position")
	}
	t.verify("after a cancelled transaction")
	s.deliverLarge(tx, 2)
	t.verify("after the whole transaction")
}

func bigShape(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", "b")))
	wider := t.table("basic", "id int4 key", "name text", "note text", "more text")
	other := t.table("second", "id int4 key", "name text")
	tx := s.tx(insert(table, 2, "a", "b"), insert(wider, 3, "a", "b", "c"), insert(other, 4, "d"))
	var rels relations
	one, two, three := rels.change(tx.changes[0]), rels.change(tx.changes[1]), rels.change(tx.changes[2])
	frames := []*frame{
		largeBegin(s.context(), s.durable, tx), largeRelation(table.relation), largeChanges(0, []*sinkv1.Change{one}),
		{Frame: &sinkv1.HandleLargeTransactionRequest_SchemaChange{SchemaChange: schemaChange(table, wider)}},
		largeRelation(wider.relation), largeChanges(1, []*sinkv1.Change{two}),
		largeRelation(other.relation), largeChanges(2, []*sinkv1.Change{three}), largeCommit(tx, 3),
	}
	before := t.model.counts
	out, err := t.sendFrames(t.ctx, nil, frames...)
	if err != nil {
		if refusal(err).Reason == "SCHEMA_DECLINED" {
			t.inapplicable("the sink declines this shape")
		}
		t.failed("a large transaction with a schema change is refused: %v", err)
	}
	s.accept(&unit{txs: []*txn{tx}, checkpoint: tx.end, called: "HandleLargeTransaction"}, out, before)
	t.verify("after a schema change inside of a large transaction")
}

var dlnCases = []Case{
	{
		ID: "DLN-001", Level: Must, Profile: Core, Needs: NeedProbe, Capabilities: keeps, Rules: []string{"S-102", "S-110"},
		Title:  "random deadlines that are too short, Checkpoint after each",
		Reason: "after an unknown outcome the position is the only truth",
		Expect: "rows and position agree each time", Cause: "an early return between rows and position", Run: dlnShort,
	},
	{
		ID: "DLN-002", Level: Must, Profile: Core, Rules: []string{"S-110"},
		Title:  "a hundred calls in a row whose caller leaves",
		Reason: "a sidecar that was cut off comes back, many times",
		Expect: "the next call is answered within 5 s, ten times what it took before at least",
		Cause:  "a worker, a lock or a connection is kept for each", Run: dlnMany,
	},
	{
		ID: "DLN-003", Level: Must, Profile: Core, Needs: NeedProbe, Capabilities: keeps, Rules: []string{"S-102", "S-110"},
		Title:  "the connection breaks in a call, twenty times",
		Reason: "networks do that", Expect: "the next connection works; rows and position agree",
		Cause: "state that hangs on a connection", Run: dlnBroken,
	},
}

// rewrite makes a unit that gives all rows of a table the same new name.
func (s *stream) rewrite(table *shape, rows int, name any) *unit {
	var changes []change
	for i := range rows {
		changes = append(changes, insert(table, i, name, null))
	}
	return s.unit(s.tx(changes...))
}

func dlnShort(t *Trial) {
	table, s := t.basic(), t.stream()
	rows := max(1100, t.manyRows()/4)
	start := time.Now()
	s.settle(s.rewrite(table, rows, "first"))
	whole := time.Since(start)
	for i := range map[Effort]int{Quick: 5, Normal: 20, Thorough: 40}[t.session.o.Effort] {
		u := s.rewrite(table, rows, i)
		s.hurry(u, whole, t.rng.Float64()*1.2)
		s.claim()
		t.decided(s, u)
	}
}

// decided takes the position for the truth, compares the rows with it, and sends again
// what is not stored.
func (t *Trial) decided(s *stream, u *unit) {
	if s.durable != nil && *s.durable >= u.checkpoint {
		s.apply(u)
		t.verify("after a call whose outcome was unknown: it is stored, by the position")
		return
	}
	t.verify("after a call whose outcome was unknown: it is not stored, by the position")
	s.redeliver(u)
	t.verify("after the call was made again")
}

func dlnMany(t *Trial) {
	table, s := t.basic(), t.stream()
	start := time.Now()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	usual := time.Since(start)
	for i := range 100 {
		u := s.unit(s.tx(insert(table, 2, "b", i)))
		r := s.pick(u)
		q := s.build(u)
		ctx, cancel := context.WithTimeout(t.ctx, time.Duration(t.rng.Float64()*2*float64(usual)))
		_, _ = s.post(ctx, u, r, q)
		if t.has(sinkv1.Capability_CAPABILITY_LARGE_TRANSACTION) && i%4 == 0 {
			frames := s.large(u.txs[0], 1)
			_ = t.frames(ctx, frames[:2]...)
		}
		cancel()
		if s.sinkOwned() { // what was stored in the end is not the matter here
			s.wal += 64
		}
	}
	limit := max(5*time.Second, 10*usual)
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	if _, err := t.link.sink.GetCapabilities(ctx, &sinkv1.GetCapabilitiesRequest{}); err != nil {
		t.failed("after a hundred cancelled calls GetCapabilities is not answered within %s: %v", limit, err)
	}
	s.claim()
	s.sequence += 1000
	u := s.unit(s.tx(insert(table, 3, "c", null)))
	if _, err := s.send(ctx, u); err != nil {
		t.failed("after a hundred cancelled calls a unit is not stored within %s: %v", limit, err)
	}
}

func dlnBroken(t *Trial) {
	table, s := t.basic(), t.stream()
	start := time.Now()
	s.settle(s.rewrite(table, 1100, "first"))
	whole := time.Since(start)
	for i := range map[Effort]int{Quick: 8, Normal: 20, Thorough: 20}[t.session.o.Effort] {
		u := s.rewrite(table, 1100, i)
		u.link = t.open()
		r := s.pick(u)
		q := s.build(u)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = s.post(t.ctx, u, r, q)
		}()
		part := t.rng.Float64() * 1.2
		if i%2 == 0 { // the later half, where the store is at work
			part = 0.5 + t.rng.Float64()/2
		}
		pause(t.ctx, int(float64(whole.Milliseconds())*part))
		u.link.close()
		<-done
		u.link = nil
		t.did("the connection was broken")
		s.claim()
		t.decided(s, u)
	}
}
