package conformance

import (
	"context"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func lib(id, title, reason, cause string, needs Need, run func(*Trial), rules ...string) Case {
	return Case{
		ID: id, Level: Must, Profile: Lib, Needs: needs, Rules: rules, Title: title, Reason: reason, Cause: cause, Run: run,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_TRANSACTION},
		Fencing:      sinkv1.Fencing_FENCING_INSTANCE,
		Expect:       "the refusal that the fence's order gives, and nothing done",
	}
}

var libCases = []Case{
	lib("LIB-001", "a call for another process", "a sink that restarted has forgotten what it saw, and must not be taken for the old one",
		"instance_id is not compared", NeedProbe, libInstance, "S-111"),
	lib("LIB-002", "a lower epoch, then a higher one", "a sidecar that was replaced still has a call on its way",
		"epochs are not remembered", NeedProbe, libEpoch, "S-111"),
	lib("LIB-003", "a restart between two calls", "a call that was meant for the dead process may do what was done again",
		"an instance id that is not new with each process", NeedProbe|NeedLifecycle, libRestart, "S-111", "S-202"),
	lib("LIB-004", "the same and a lower sequence; a low sequence of a higher epoch", "a repeat overtook the call that it repeats, and the late one writes an old row",
		"sequences are not compared, or across epochs", NeedProbe, libSequence, "S-111"),
	lib("LIB-005", "positions that fall, and units behind a gap", "the sidecar keeps the position: what it sends is to be applied",
		"a skip or a gap test where there is none", NeedProbe, libNoSkip, "S-111"),
	lib("LIB-006", "a refused call, then a good one that is lower than it", "only what ran is remembered",
		"the fence is raised before it is passed", NeedProbe, libRefused, "S-111"),
	lib("LIB-007", "OK and a kill", "after OK the sidecar stores its own row", "an OK before the commit",
		NeedProbe|NeedLifecycle, libDurable, "S-101"),
	lib("LIB-008", "a broken change in the middle", "a refused unit leaves nothing here too", "autocommit",
		NeedProbe, libMiddle, "S-113"),
	lib("LIB-009", "crash points of a unit", "a half of it, and the whole again, is more than twice", "autocommit",
		NeedProbe|NeedCrash, libCrash, "S-113", "S-101"),
}

// stillSame compares the tables.
func (t *Trial) stillSame(when string) {
	if f := t.compare(t.model, when); f != nil {
		t.fail(f)
	}
}

func libInstance(t *Trial) {
	table, s := t.basic(), t.libStream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	mine := s.instance
	for _, other := range [][]byte{t.bytes(sinkv1.IDBytes), nil} {
		s.instance = other
		s.refused(s.unit(s.tx(insert(table, 2, "b", null))), codes.FailedPrecondition, "INSTANCE_CHANGED")
		t.stillSame("after a call for another process")
	}
	s.instance = mine
	s.deliver(s.tx(insert(table, 2, "b", null)))
	t.stillSame("after a call for this process")
}

func libEpoch(t *Trial) {
	table, s := t.basic(), t.libStream()
	s.epoch = 5
	s.deliver(s.tx(insert(table, 1, "a", null)))
	s.epoch = 4
	s.refused(s.unit(s.tx(insert(table, 2, "b", null))), codes.FailedPrecondition, "FENCED")
	t.stillSame("after a call of a lower epoch")
	s.epoch = 6
	s.deliver(s.tx(insert(table, 3, "c", null)))
	s.epoch = 5
	s.refused(s.unit(s.tx(insert(table, 4, "d", null))), codes.FailedPrecondition, "FENCED")
	t.stillSame("after a call of the epoch before")
	other := t.libStream()
	other.deliver(other.tx(insert(table, 9, "another stream", null)))
	t.stillSame("after a call of another stream at epoch 1")
}

func libRestart(t *Trial) {
	table, s := t.basic(), t.libStream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	old := s.instance
	t.bounce()
	fresh := s.instance
	s.instance = old
	s.refused(s.unit(s.tx(insert(table, 2, "late", null))), codes.FailedPrecondition, "INSTANCE_CHANGED")
	t.stillSame("after a call that was meant for the process before")
	s.instance = fresh
	s.deliver(s.tx(insert(table, 2, "b", null)))
	t.stillSame("after a call for the new process")
}

func libSequence(t *Trial) {
	table, s := t.basic(), t.libStream()
	s.sequence = 100
	s.deliver(s.tx(insert(table, 1, "a", null)))
	for _, back := range []uint64{1, 2, 50} {
		s.sequence -= back
		s.refused(s.unit(s.tx(update(table, 1, "late", null))), codes.FailedPrecondition, "STALE_DELIVERY")
		s.sequence += back - 1
		t.stillSame("after a call with a sequence that was seen")
	}
	s.deliver(s.tx(insert(table, 2, "b", null)))
	s.epoch, s.sequence = s.epoch+1, 0
	s.deliver(s.tx(insert(table, 3, "of the next epoch", null)))
	t.stillSame("after a low sequence of a higher epoch")
}

func libNoSkip(t *Trial) {
	table := t.shaped(t.schema, "keyless", sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL, "name text", "note text")
	s := t.libStream()
	tx := s.tx(insert(table, "a", "b"))
	later := s.tx(insert(table, "c", "d"))
	s.deliver(later)
	s.deliver(tx)
	t.stillSame("after a transaction that ends below another")
	s.deliver(tx)
	t.stillSame("after the same transaction again, which must run")
	u := s.unit(s.tx(insert(table, "e", "f")))
	above := u.checkpoint + 1000
	u.expected = &above
	s.settle(u)
	t.stillSame("after a unit that expects what a sink cannot know")
}

func libRefused(t *Trial) {
	table, s := t.basic(), t.libStream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	mine, epoch, sequence := s.instance, s.epoch, s.sequence
	s.instance, s.epoch, s.sequence = t.bytes(sinkv1.IDBytes), epoch+10, sequence+1000
	s.refused(s.unit(s.tx(insert(table, 2, "b", null))), codes.FailedPrecondition, "INSTANCE_CHANGED")
	s.instance, s.epoch, s.sequence = mine, epoch, sequence
	s.deliver(s.tx(insert(table, 3, "c", null)))
	t.stillSame("after a good call behind a refused one")
}

func libDurable(t *Trial) {
	table, s := t.basic(), t.libStream()
	s.deliver(s.tx(insert(table, 1, "a", "b"), insert(table, 2, "c", null)))
	t.bounce()
	t.stillSame("after OK and a kill")
}

func libMiddle(t *Trial) {
	table, s := t.basic(), t.libStream()
	var changes []change
	for i := range 20 {
		changes = append(changes, insert(table, i, "a", null))
	}
	u := s.unit(s.tx(changes...))
	u.edit = func(r *request) { r.transactions[0].Changes[10].RelationIndex = 77 }
	s.refused(u, codes.InvalidArgument, "")
	t.stillSame("after a unit that was refused in its middle")
	u.edit = nil
	s.settle(u)
	t.stillSame("after the same unit, whole")
}

func libCrash(t *Trial) {
	t.crash("unit whose position the sidecar keeps", func() *scene {
		table, s := t.basic(), t.libStream()
		s.deliver(s.tx(insert(table, 1, "old", "old")))
		u := s.unit(mix(s, table))
		return &scene{
			stream: s,
			act:    func(ctx context.Context) error { _, err := s.send(ctx, u); return err },
			done:   func() { s.apply(u) },
			redo:   func() { s.settle(u) },
		}
	})
}
