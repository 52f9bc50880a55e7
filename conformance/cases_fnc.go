package conformance

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func fnc(id, title, reason, cause string, needs Need, run func(*Trial), rules ...string) Case {
	return Case{
		ID: id, Level: Must, Profile: Fenced, Needs: needs, Capabilities: keeps,
		Fencing: sinkv1.Fencing_FENCING_STORED, Rules: rules,
		Title: title, Reason: reason, Cause: cause, Run: run,
		Expect: "FENCED for whoever was replaced, and nothing stored",
	}
}

var fncCases = []Case{
	fnc("FNC-001", "claim 1, write, claim 2, write with 1", "a sidecar that was paused must not write after its successor",
		"the epoch is not compared", NeedProbe, fncWrite, "S-104"),
	fnc("FNC-002", "claim 2, then claim 1", "a claim that came late must not win",
		"the higher of the two is kept, and both succeed", 0, fncLate, "S-303"),
	{
		ID: "FNC-003", Level: Must, Profile: Fenced, Needs: NeedProbe, Fencing: sinkv1.Fencing_FENCING_STORED,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_CHECKPOINT, sinkv1.Capability_CAPABILITY_LARGE_TRANSACTION},
		Rules:        []string{"S-602", "S-304"}, Run: fncLarge,
		Title:  "a transaction in frames, claimed away before its commit",
		Reason: "a large transaction takes minutes; a takeover does not wait",
		Expect: "the commit is refused, nothing is visible", Cause: "the epoch is tested at begin alone",
	},
	fnc("FNC-004", "claim 2, kill, restart, write with 1", "the fence has to survive what the takeover was for",
		"the epoch is kept in memory", NeedLifecycle, fncRestart, "S-104", "S-205"),
	fnc("FNC-005", "the same claim again; the same epoch of another sender; a lower one; reads between; after a restart too", "a lost answer is claimed again, and only by its owner",
		"the sender is not compared", 0, fncSender, "S-303", "S-301"),
	fnc("FNC-006", "an old epoch on every writing call", "one unfenced call is a hole in the fence",
		"the test is in one handler", 0, fncEvery, "S-104", "S-802", "S-907"),
	fnc("FNC-007", "claims and writes in a race", "a test before the store transaction passes while the claim is on its way",
		"the epoch is compared outside of the transaction that writes", NeedProbe, fncRace, "S-104", "S-304"),
}

func fncWrite(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	s.claim()
	for range 2 {
		u := s.unit(s.tx(insert(table, 2, t.canary("late"), null)))
		s.epoch--
		s.refused(u, codes.FailedPrecondition, "FENCED")
		s.epoch++
		t.verify("after a write of an old epoch")
		s.deliver(u.txs...)
		t.verify("after a write of the epoch that rules")
	}
}

func fncLate(t *Trial) {
	s := t.stream()
	s.claim()
	_, err := s.tryClaim(t.ctx, 1, t.bytes(sinkv1.IDBytes))
	t.mustRefuse("a claim of an old epoch", err, codes.FailedPrecondition, "FENCED")
	if r := s.read(); r.GetEpoch() != 2 {
		t.failed("the stored epoch is %d after a refused claim, not 2", r.GetEpoch())
	}
	s.settle(s.idle())
}

func fncLarge(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	tx := s.tx(insert(table, 2, "b", null), insert(table, 3, "c", null))
	frames := s.large(tx, 1)
	_, err := t.sendFrames(t.ctx, func() { pause(t.ctx, 20); s.takeOver() }, frames...)
	// A sink may give way before the claim is stored: then it cannot know yet that it is fenced.
	if refusal(err).Code != codes.Aborted {
		t.mustRefuse("the commit of a transaction that was claimed away", err, codes.FailedPrecondition, "FENCED")
	}
	t.verify("after a commit of an old epoch")
	s.deliverLarge(tx, 2)
	t.verify("after the same transaction under the epoch that rules")
}

// takeOver claims in a goroutine of its own where the sink holds its store during a
// client stream: then the claim has to wait, and the stream may commit before it.
func (s *stream) takeOver() {
	ctx, cancel := context.WithTimeout(s.t.ctx, s.t.claimPatience())
	defer cancel()
	r, err := s.t.link.sink.Checkpoint(ctx, &sinkv1.CheckpointRequest{
		StreamId: s.id, Source: s.source, Claim: &sinkv1.CheckpointClaim{Epoch: s.epoch + 1, SenderId: s.sender},
	})
	if err != nil {
		s.t.inapplicable("the sink lets no claim pass while a transaction is in frames: the stream comes first")
	}
	s.epoch, s.durable = r.GetEpoch(), r.Position
}

func fncRestart(t *Trial) {
	table, s := t.basic(), t.stream()
	s.claim()
	if t.session.lifecycle() {
		t.bounce()
	}
	s.epoch--
	s.refused(s.unit(s.tx(insert(table, 1, "a", null))), codes.FailedPrecondition, "FENCED")
}

func fncSender(t *Trial) {
	s := t.stream()
	s.claim()
	s.settle(s.idle())
	for range 2 {
		r, err := s.tryClaim(t.ctx, s.epoch, s.sender)
		if err != nil {
			t.failed("a claim that is repeated by its sender is refused: %v", err)
		}
		if r.GetEpoch() != s.epoch {
			t.failed("a claim that is repeated answers epoch %d, not %d", r.GetEpoch(), s.epoch)
		}
		if r := s.read(); r.GetEpoch() != s.epoch {
			t.failed("a read changed the epoch")
		}
		_, err = s.tryClaim(t.ctx, s.epoch, t.bytes(sinkv1.IDBytes))
		t.mustRefuse("a claim of the stored epoch by another sender", err, codes.FailedPrecondition, "FENCED")
		_, err = s.tryClaim(t.ctx, s.epoch-1, s.sender)
		t.mustRefuse("a claim of a lower epoch", err, codes.FailedPrecondition, "FENCED")
	}
	s.settle(s.idle())
	if !t.session.lifecycle() {
		return
	}
	t.bounce()
	_, err := s.tryClaim(t.ctx, s.epoch, t.bytes(sinkv1.IDBytes))
	t.mustRefuse("a claim of the stored epoch by another sender, after a restart", err, codes.FailedPrecondition, "FENCED")
	if _, err = s.tryClaim(t.ctx, s.epoch, s.sender); err != nil {
		t.failed("a claim that is repeated by its sender after a restart is refused: %v", err)
	}
	s.settle(s.idle())
}

// writers are all writing calls that the sink has, under the stream's epoch and gap.
func (s *stream) writers(table *shape) map[string]func(ctx context.Context) error {
	l, t := s.t.link, s.t
	calls := map[string]func(ctx context.Context) error{}
	s.wal += 64
	lsn, expected := s.wal, s.durable
	have := func(name string, c sinkv1.Capability, call func(ctx context.Context) error) {
		if t.has(c) {
			calls[name] = call
		}
	}
	have("HandleTransaction", sinkv1.Capability_CAPABILITY_TRANSACTION, func(ctx context.Context) error {
		_, err := l.sink.HandleTransaction(ctx, &sinkv1.HandleTransactionRequest{Context: s.context(), CheckpointLsn: &lsn, ExpectedCheckpoint: expected})
		return err
	})
	have("HandleBatch", sinkv1.Capability_CAPABILITY_BATCH, func(ctx context.Context) error {
		_, err := l.sink.HandleBatch(ctx, &sinkv1.HandleBatchRequest{Context: s.context(), CheckpointLsn: &lsn, ExpectedCheckpoint: expected})
		return err
	})
	have("HandleLargeTransaction", sinkv1.Capability_CAPABILITY_LARGE_TRANSACTION, func(ctx context.Context) error {
		tx := s.tx(insert(table, 77, "a", null))
		frames := s.large(tx, 1)
		frames[0].GetBegin().ExpectedCheckpoint = expected
		return t.frames(ctx, frames...)
	})
	have("HandleMessage", sinkv1.Capability_CAPABILITY_MESSAGE, func(ctx context.Context) error {
		_, err := l.sink.HandleMessage(ctx, &sinkv1.HandleMessageRequest{
			Context: s.context(), CheckpointLsn: &lsn, ExpectedCheckpoint: expected, Message: &sinkv1.LogicalMessage{Lsn: lsn},
		})
		return err
	})
	have("HandleSchemaChange", sinkv1.Capability_CAPABILITY_SCHEMA_CHANGE, func(ctx context.Context) error {
		_, err := l.sink.HandleSchemaChange(ctx, &sinkv1.HandleSchemaChangeRequest{
			Context: s.context(), ExpectedCheckpoint: expected, SchemaChange: &sinkv1.SchemaChange{
				Kind:   sinkv1.SchemaChangeKind_SCHEMA_CHANGE_KIND_ADDITIVE,
				Detail: sinkv1.SchemaChangeDetail_SCHEMA_CHANGE_DETAIL_COLUMN_ADDED,
				Before: table.relation, After: table.relation,
			},
		})
		return err
	})
	have("HandleSnapshot", sinkv1.Capability_CAPABILITY_SNAPSHOT, func(ctx context.Context) error {
		_, err := l.sink.HandleSnapshot(ctx, &sinkv1.HandleSnapshotRequest{
			Context: s.context(), ExpectedCheckpoint: expected,
			Unit: &sinkv1.SnapshotUnit{RunId: s.sender, Generation: 1, ProgressToken: []byte{1}},
		})
		return err
	})
	have("HandleSnapshotComplete", sinkv1.Capability_CAPABILITY_SNAPSHOT_COMPLETE, func(ctx context.Context) error {
		_, err := l.sink.HandleSnapshotComplete(ctx, &sinkv1.HandleSnapshotCompleteRequest{
			Context: s.context(), CheckpointLsn: &lsn, ExpectedCheckpoint: expected,
			Completion: &sinkv1.SnapshotCompletion{RunId: s.sender, Generation: 1},
		})
		return err
	})
	return calls
}

func fncEvery(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	s.claim()
	s.epoch--
	for name, call := range s.writers(table) {
		ctx, cancel := t.deadline(t.ctx)
		err := call(ctx)
		cancel()
		t.mustRefuse(name+" with an old epoch", err, codes.FailedPrecondition, "FENCED")
	}
	s.epoch++
	t.verify("after writing calls of an old epoch")
}

// fncRace lets two senders claim by turns while both write as fast as they can. Each row
// says which epoch wrote it; after a claim returned, no row of a lower epoch may appear.
func fncRace(t *Trial) {
	table, s := t.table("race", "id int4 key", "epoch int4"), t.stream()
	rounds := map[Effort]int{Quick: 15, Normal: 60, Thorough: 200}[t.session.o.Effort]
	other := t.open()
	id := 0
	for round := range rounds {
		var writes []*unit
		for range 4 {
			id++
			tx := s.tx(insert(table, id, s.epoch))
			writes = append(writes, &unit{txs: []*txn{tx}, checkpoint: tx.end, link: other})
		}
		var requests []*request
		var roads []road
		for _, u := range writes {
			roads = append(roads, s.pick(u))
			requests = append(requests, s.build(u))
		}
		ok := make([]error, len(writes))
		var writer sync.WaitGroup
		writer.Go(func() {
			for i, u := range writes {
				_, ok[i] = s.post(t.ctx, u, roads[i], requests[i])
			}
		})
		pause(t.ctx, t.rng.IntN(4))
		r, err := s.tryClaim(t.ctx, s.epoch+1, t.bytes(sinkv1.IDBytes))
		if err != nil {
			t.failed("a claim beside writes is refused: %v", err)
		}
		at := r.GetPosition()
		writer.Wait()
		s.epoch, s.durable = r.GetEpoch(), r.Position
		after := s.read().GetPosition()
		if after != at {
			t.differs(fmt.Sprintf("round %d: the old epoch wrote after the claim had returned", round), lsnText(at), lsnText(after))
		}
		for i, u := range writes {
			if stored := u.checkpoint <= at; stored {
				s.apply(u)
			} else if ok[i] == nil {
				t.failed("round %d: a write of the old epoch is answered OK and not in the claim's position", round)
			}
		}
		s.durable = r.Position
	}
	t.verify("after claims and writes in a race")
}
