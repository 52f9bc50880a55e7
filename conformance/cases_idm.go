package conformance

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func idm(id, title, reason, cause string, needs Need, run func(*Trial), rules ...string) Case {
	return Case{
		ID: id, Level: Must, Profile: Core, Needs: NeedProbe | needs, Capabilities: keeps, Rules: rules,
		Title: title, Reason: reason, Cause: cause, Run: run,
		Expect: "OK, the request's own position, and the rows of each transaction once",
	}
}

var idmCases = append([]Case{
	idm("IDM-001", "the same unit ten times", "an answer that was lost is asked for again",
		"a replay is an error, or answered with another position", 0, idmTen, "S-106", "S-108"),
	idm("IDM-002", "insert k, delete k, replay the insert", "a replay that runs brings a deleted row back",
		"upserts without a look at the position", 0, idmDeleted, "S-106", "S-107"),
	idm("IDM-003", "insert k, update k, replay the insert", "a replay that runs brings an old value back",
		"upserts without a look at the position", 0, idmUpdated, "S-106", "S-107"),
	idm("IDM-004", "position at the fifth transaction, the third to the eighth again", "a redelivery overlaps what is stored",
		"a skip of the whole batch, or of nothing", 0, idmOverlap, "S-106", "S-502"),
	idm("IDM-005", "[1-5][6-10], then [3-8], then [1-12]", "batch borders may move at a redelivery",
		"batches are known by their bytes or their borders", 0, idmRegroup, "S-502", "S-503"),
	idm("IDM-006", "as IDM-004, with a kill before the redelivery", "a redelivery comes after a crash more often than not",
		"what is done is remembered in memory", NeedLifecycle, idmRestart, "S-106", "S-101"),
	idm("IDM-007", "the caller leaves when all is sent, asks, and sends again", "a lost answer is the usual fault",
		"a handler that goes on beside the next call", 0, idmLost, "S-108", "S-110"),
	idm("IDM-008", "truncate, insert, replay the truncate", "a truncate that runs again empties a live table",
		"truncates run outside of the unit's transaction, or before its tests", 0, idmTruncate, "S-106"),
	idm("IDM-009", "inserts into a table without a key, twice", "no key hides a second run there",
		"a replay relies on upserts", 0, idmKeyless, "S-106"),
	idm("IDM-010", "a to b, b to c, replay both", "a key change that runs again makes a row of the past",
		"a replay relies on upserts", 0, idmRekey, "S-106"),
	idm("IDM-011", "an idle step, again, a lower one; with a kill; a transaction without changes",
		"an idle step that is not stored looks like a gap at the next start",
		"a unit without transactions is answered OK and forgotten", 0, idmIdle, "S-109", "S-107"),
	{
		ID: "IDM-012", Level: Must, Profile: Core, Needs: NeedProbe, Capabilities: keeps, Rules: []string{"S-105", "S-104"},
		Title:  "expected_checkpoint above the position, expected where none is stored, an epoch that nobody claimed",
		Reason: "the store was restored, emptied or swapped, and what lies between would be lost without a sign",
		Expect: "CHECKPOINT_BEHIND, nothing applied", Cause: "expected_checkpoint is ignored, or absent counts as zero",
		Run: idmGap,
	},
	{
		ID: "IDM-013", Level: Must, Profile: Large, Needs: NeedProbe,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_CHECKPOINT, sinkv1.Capability_CAPABILITY_LARGE_TRANSACTION},
		Rules:        []string{"S-605", "S-106"},
		Title:        "one transaction in frames, then as a unit, and the other way round",
		Reason:       "a limit that changed between two starts changes the road, and not the transaction",
		Expect:       "applied once", Cause: "two roads with two memories",
		Run: idmRoads,
	},
}, Case{
	ID: "IDM-014", Level: Must, Profile: Core, Needs: NeedProbe | NeedLifecycle, Capabilities: keeps,
	Rules:  []string{"S-101", "S-102", "S-106", "S-503"},
	Title:  "a random history: replays, other groups, lost answers, kills",
	Reason: "what single cases miss, mixtures find",
	Expect: "rows and position equal the model's after each restart and at the end",
	Cause:  "two rules that are right alone and wrong together",
	Run:    idmHistory,
})

func idmTen(t *Trial) {
	table, s := t.basic(), t.stream()
	u := s.unit(s.tx(insert(table, 1, "a", "b"), insert(table, 2, "c", null)))
	for range 10 {
		s.settle(u)
		t.verify("after the same unit again")
	}
}

func idmDeleted(t *Trial) {
	table, s := t.basic(), t.stream()
	first := s.tx(insert(table, 1, "a", "b"))
	s.deliver(first)
	s.deliver(s.tx(remove(table, 1)))
	s.deliver(first)
	t.verify("after the replay of an insert whose row is gone")
}

func idmUpdated(t *Trial) {
	table, s := t.basic(), t.stream()
	first, second := s.tx(insert(table, 1, "a", "b")), s.tx(update(table, 1, "changed", "b"))
	s.deliver(first)
	s.deliver(second)
	third := s.tx(update(table, 1, "changed again", "b"))
	s.deliver(third)
	s.deliver(first)
	t.verify("after the replay of an insert whose row was updated")
	s.deliver(second)
	t.verify("after the replay of an update whose row was updated again")
}

// history makes n transactions that all touch what those before them did.
func (s *stream) history(table *shape, n int) []*txn {
	var txs []*txn
	keyless := s.t.shaped(s.t.schema, "history", sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL, "name text", "note text")
	for i := range n {
		switch k := i % 5; k {
		case 2:
			txs = append(txs, s.tx(update(table, 1, s.t.canary("u"), i), insert(table, 100+i, "b", null)))
		case 4:
			txs = append(txs, s.tx(remove(table, 100+i-2), insert(table, 200+i, "c", i)))
		case 3:
			txs = append(txs, s.tx(insert(table, i+1, "a", i), insert(keyless, "no key", i)))
		default:
			txs = append(txs, s.tx(insert(table, i+1, "a", i)))
		}
	}
	return txs
}

func idmOverlap(t *Trial) {
	table, s := t.basic(), t.stream()
	txs := s.history(table, 8)
	s.deliver(txs[:5]...)
	s.deliver(txs[2:]...)
	t.verify("after an overlap")
}

func idmRegroup(t *Trial) {
	table, s := t.basic(), t.stream()
	txs := s.history(table, 12)
	s.deliver(txs[:5]...)
	s.deliver(txs[5:10]...)
	s.deliver(txs[2:8]...)
	t.verify("after the redelivery of [3-8]")
	s.deliver(txs...)
	t.verify("after the redelivery of [1-12]")
}

func idmRestart(t *Trial) {
	table, s := t.basic(), t.stream()
	txs := s.history(table, 8)
	s.deliver(txs[:5]...)
	t.verify("before the kill")
	t.bounce()
	s.claim()
	s.deliver(txs[2:]...)
	t.verify("after a kill and an overlap")
}

// lose makes a call whose answer nobody waits for, once it was sent.
func (s *stream) lose(u *unit) {
	ctx, cancel := context.WithCancel(s.t.ctx)
	done := make(chan struct{})
	r := s.pick(u)
	q := s.build(u)
	go func() {
		defer close(done)
		_, _ = s.post(ctx, u, r, q)
	}()
	// The sink may have the request, all of it, or part of its work done by now: each is
	// lawful, so the moment does not matter.
	pause(s.t.ctx, s.t.rng.IntN(6))
	cancel()
	<-done
	s.t.did("the caller left")
}

func idmLost(t *Trial) {
	table := t.shaped(t.schema, "keyless", sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL, "name text", "note text")
	s := t.stream()
	for i := range 10 {
		u := s.unit(s.tx(insert(table, "a", i), insert(table, "a", i)))
		s.lose(u)
		s.claim()
		s.redeliver(u)
		t.verify("after a lost answer")
	}
}

// redeliver sends a unit again under a claim's position.
func (s *stream) redeliver(u *unit) {
	again := *u
	again.expected, again.uncounted = s.durable, true
	s.settle(&again)
}

func idmTruncate(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	cut := s.tx(truncate(table))
	s.deliver(cut)
	s.deliver(s.tx(insert(table, 2, "b", null)))
	s.deliver(cut)
	t.verify("after the replay of a truncate")
}

func idmKeyless(t *Trial) {
	s := t.stream()
	table := t.shaped(t.schema, "keyless", sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL, "name text", "note text")
	txs := []*txn{s.tx(insert(table, "a", "b"), insert(table, "a", "b")), s.tx(insert(table, "c", null))}
	s.deliver(txs...)
	for range 3 {
		s.deliver(txs...)
		s.deliver(txs[0])
	}
	t.verify("after the replay of inserts without a key")
}

func idmRekey(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", "b"), insert(table, 9, "x", "y")))
	one := s.tx(rekey(table, []any{1}, 2, "a", kept))
	two := s.tx(rekey(table, []any{2}, 3, "a", kept))
	s.deliver(one)
	s.deliver(two)
	s.deliver(one)
	t.verify("after the replay of the first key change")
	s.deliver(one, two)
	t.verify("after the replay of both key changes")
}

func idmIdle(t *Trial) {
	table, s := t.basic(), t.stream()
	s.settle(s.idle())
	t.verify("after an idle step of a new stream")
	s.deliver(s.tx(insert(table, 1, "a", null)))
	low := s.idle()
	s.settle(low)
	t.verify("after an idle step")
	s.settle(low)
	high := s.idle()
	s.settle(high)
	s.settle(low)
	t.verify("after an idle step below the position")
	s.deliver(s.tx())
	t.verify("after a transaction without changes")
	gap := s.idle()
	gap.expected = &gap.checkpoint
	s.refused(gap, codes.FailedPrecondition, "CHECKPOINT_BEHIND")
	t.verify("after an idle step behind a gap")
	if !t.session.lifecycle() {
		return
	}
	s.settle(s.idle())
	t.bounce()
	t.verify("after an idle step and a kill")
}

func idmGap(t *Trial) {
	table, s := t.basic(), t.stream()
	u := s.unit(s.tx(insert(table, 1, "a", null)))
	above := u.checkpoint
	u.expected = &above
	s.behind(u)
	t.verify("after a unit that expects what was never stored")
	u.expected = nil
	s.settle(u)
	next := s.unit(s.tx(insert(table, 2, "b", null)))
	above = next.txs[0].commit
	next.expected = &above
	s.behind(next)
	t.verify("after a unit behind a gap")
	s.behindAll(table)
	t.verify("after writing calls behind a gap")
	if t.session.stored() {
		next.expected = s.durable
		s.epoch += 5
		s.refused(next, codes.FailedPrecondition, "CHECKPOINT_BEHIND")
		s.epoch -= 5
		t.verify("after a unit of an epoch that nobody claimed")
	}
	low := above - 40
	next.expected = &low
	s.settle(next)
	t.verify("after a unit that expects less, which is lawful")
}

// behind sends a unit behind a gap by each road.
func (s *stream) behind(u *unit) {
	s.byEach(func(road) { s.refused(u, codes.FailedPrecondition, "CHECKPOINT_BEHIND") })
}

// behindAll makes every writing call behind a gap.
func (s *stream) behindAll(table *shape) {
	known, wal := s.durable, s.wal
	above := *known + 1
	s.durable = &above
	calls := s.writers(table)
	delete(calls, "HandleSnapshot") // SNP-016 is about it
	for _, name := range sortedKeys(calls) {
		ctx, cancel := s.t.deadline(s.t.ctx)
		err := calls[name](ctx)
		cancel()
		s.t.mustRefuse(name+" behind a gap", err, codes.FailedPrecondition, "CHECKPOINT_BEHIND")
	}
	s.durable, s.wal = known, wal
}

func idmRoads(t *Trial) {
	table := t.shaped(t.schema, "keyless", sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL, "name text", "note text")
	s := t.stream()
	one, two := s.tx(insert(table, "a", 1), insert(table, "a", 1)), s.tx(insert(table, "b", 1), insert(table, "b", 1))
	s.deliverLarge(one, 1)
	s.deliver(one)
	t.verify("after the same transaction by another road")
	s.deliver(two)
	s.deliverLarge(two, 1)
	s.deliverLarge(one, 2)
	t.verify("after both, in frames again")
}

func idmHistory(t *Trial) {
	table := t.basic()
	keyless := t.shaped(t.schema, "keyless", sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL, "name text", "note text")
	s := t.stream()
	rounds := map[Effort]int{Quick: 60, Normal: 200, Thorough: 300}[t.session.o.Effort]
	s.deliver(s.tx(insert(table, 50, "first", null), insert(keyless, "first", null)))
	var txs []*txn
	for round := range rounds {
		switch n := t.rng.IntN(100); {
		case n < 40 && len(txs) > 0: // a replay, grouped anew
			from := max(0, len(txs)-1-t.rng.IntN(12))
			group := slices.Clone(txs[from:min(len(txs), from+1+t.rng.IntN(8))])
			s.deliver(group...)
		case n < 48:
			u := s.unit(s.random(round, table, keyless))
			txs = append(txs, u.txs...)
			s.lose(u)
			s.claim()
			s.redeliver(u)
		case n < 52:
			t.verify("in a random history")
			t.bounce()
			t.verify("after a kill in a random history")
			s.claim()
		case n < 60:
			s.settle(s.idle())
		default:
			var group []*txn
			for range 1 + t.rng.IntN(4) {
				group = append(group, s.random(round, table, keyless))
			}
			txs = append(txs, group...)
			s.deliver(group...)
		}
	}
	t.verify("at the end of a random history")
}

// random is a random transaction over few keys.
func (s *stream) random(round int, table, keyless *shape) *txn {
	var changes []change
	for range 1 + s.t.rng.IntN(4) {
		k := s.t.rng.IntN(12)
		switch s.t.rng.IntN(8) {
		case 0:
			changes = append(changes, remove(table, k))
		case 1:
			changes = append(changes, rekey(table, []any{k}, (k+1)%12, "moved", round))
		case 2, 3:
			changes = append(changes, update(table, k, "updated", round))
		case 4:
			changes = append(changes, insert(keyless, "n", round))
		default:
			changes = append(changes, insert(table, k, "inserted", round))
		}
	}
	return s.tx(changes...)
}
