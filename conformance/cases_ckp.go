package conformance

import (
	"bytes"
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// keeps are the capabilities of a sink that keeps its checkpoint.
var keeps = []sinkv1.Capability{sinkv1.Capability_CAPABILITY_CHECKPOINT}

var ckpCases = []Case{
	{
		ID: "CKP-001", Level: Must, Profile: Core, Capabilities: keeps, Rules: []string{"S-301", "S-302", "W-102"},
		Title:  "Checkpoint of a stream that nobody knows",
		Reason: "absent begins a copy; a zero looks like a place to resume from, and a row made by a read binds a stream",
		Expect: "OK, position absent, epoch 0, and nothing is made", Cause: "a default of 0, or an upsert in the read",
		Run: ckpNever,
	},
	{
		ID: "CKP-002", Level: Must, Profile: Core, Capabilities: keeps, Rules: []string{"S-107", "S-303", "S-304"},
		Title:  "units, then Checkpoint by a read, on another connection, and by a claim",
		Reason: "the position that a claim returns is where the stream resumes",
		Expect: "each says the end of the last unit", Cause: "a position cached in memory, or in a connection",
		Run: ckpSame,
	},
	{
		ID: "CKP-003", Level: Must, Profile: Core, Needs: NeedProbe | NeedLifecycle, Capabilities: keeps, Rules: []string{"S-101"},
		Title:  "a unit, OK, and SIGKILL at once",
		Reason: "after OK Postgres is told, and has no copy any more",
		Expect: "position and rows are there after the restart", Cause: "an OK before the commit, or a commit that is not synced",
		Run: ckpDurable,
	},
	{
		ID: "CKP-004", Level: Must, Profile: Core, Needs: NeedProbe | NeedLifecycle, Rules: []string{"S-101"},
		Title:  "a unit, OK, the sink stops, and the store is read without it",
		Reason: "what only the process knows is lost with it",
		Expect: "the rows are in the store", Cause: "rows in memory, written now and then",
		Run: ckpWithoutSink,
	},
	{
		ID: "CKP-005", Level: Must, Profile: Core, Capabilities: keeps, Rules: []string{"S-110"},
		Title:  "two streams by turns, one of them at a high epoch",
		Reason: "one sink may serve several sidecars",
		Expect: "positions and epochs are independent", Cause: "one row for all, or a key that is cut",
		Run: ckpTwo,
	},
	{
		ID: "CKP-006", Level: Must, Profile: Core, Capabilities: keeps, Rules: []string{"W-103"},
		Title:  "positions of 2^53+1, 2^63+5 and 2^64-2",
		Reason: "an LSN has 64 bits; a double or a signed number loses some",
		Expect: "given back exactly, and compared as unsigned", Cause: "a JavaScript number, a BIGINT column",
		Run: ckpWide,
	},
	{
		ID: "CKP-007", Level: Must, Profile: Core, Capabilities: keeps, Fencing: sinkv1.Fencing_FENCING_STORED, Rules: []string{"S-305"},
		Title:  "another system, another database, then another timeline and slot",
		Reason: "positions of another server mean nothing here; a failover changes timeline and slot alone",
		Expect: "SOURCE_MISMATCH, SOURCE_MISMATCH, OK", Cause: "the source is stored and never compared, or too much of it is",
		Run: ckpSource,
	},
	{
		ID: "CKP-008", Level: Must, Profile: Core, Needs: NeedLifecycle, Capabilities: keeps, Fencing: sinkv1.Fencing_FENCING_STORED, Rules: []string{"S-306"},
		Title:  "lineage over claims and a restart",
		Reason: "another lineage means another store, and halts the sidecar",
		Expect: "the same as long as the stream's row lives, 16 bytes; or none", Cause: "a lineage made when the process starts",
		Run: ckpLineage,
	},
}

func ckpNever(t *Trial) {
	s := t.unclaimed("")
	for range 2 {
		r := s.read()
		if r.Position != nil {
			t.differs("the position of a stream that nobody knows", "absent", lsnText(r.GetPosition())+" (present)")
		}
		if r.GetEpoch() != 0 {
			t.failed("the epoch of a stream that nobody knows is %d", r.GetEpoch())
		}
	}
	if !t.session.stored() {
		return
	}
	// A read that bound the stream would refuse the true owner now.
	s.source = proto.CloneOf(s.source)
	s.source.SystemIdentifier = "1234567890123456789"
	if r := s.claim(); r.Position != nil {
		t.failed("the first claim answers a position that nobody stored")
	}
}

func ckpSame(t *Trial) {
	table, s := t.basic(), t.stream()
	for i := range 3 {
		s.deliver(s.tx(insert(table, i, t.canary("a"), null)))
	}
	want := s.t.model.positions[s.id]
	s.verifyPosition("after three units")
	t.link = t.open()
	s.verifyPosition("on another connection")
	if !t.session.stored() {
		return
	}
	sender := t.bytes(sinkv1.IDBytes)
	for i := range 3 { // the second and the third are the same claim, and a unit came between
		if i < 2 {
			s.epoch++
		}
		r, err := s.tryClaim(t.ctx, s.epoch, sender)
		if err != nil {
			t.failed("claim %d is refused: %v", i+1, err)
		}
		if i == 1 {
			s.deliver(s.tx(insert(table, 9, "between", null)))
			want = s.t.model.positions[s.id]
			continue
		}
		if r.GetPosition() != want {
			t.differs("a claim answers another position than the last unit's", lsnText(want), lsnText(r.GetPosition()))
		}
	}
}

func ckpDurable(t *Trial) {
	table := t.basic()
	for i := range 3 {
		s := t.stream()
		s.deliver(s.tx(insert(table, 10*i, "a", "b"), insert(table, 10*i+1, "c", null)))
		t.bounce()
		t.verify("after OK and a kill")
		s.deliver(s.tx(update(table, 10*i, "d", "b")))
		t.bounce()
		t.verify("after OK and a kill")
	}
}

func ckpWithoutSink(t *Trial) {
	if !t.session.o.Probe.WorksStopped() {
		t.impossible("the probe needs the sink")
	}
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", "b"), insert(table, 2, "c", null)))
	ctx, cancel := context.WithTimeout(t.ctx, 15*time.Second)
	defer cancel()
	if err := t.session.o.Target.Stop(ctx); err != nil {
		t.kill()
	}
	t.did("stop")
	if f := t.compare(t.model, "without the sink's process"); f != nil {
		t.fail(f)
	}
	t.restart()
	t.verify("after the restart")
}

func ckpTwo(t *Trial) {
	table := t.basic()
	one, two := t.stream(), t.stream()
	if t.session.stored() {
		two.epoch = 1 << 40
		two.claim()
	}
	for i := range 4 {
		one.deliver(one.tx(insert(table, i, "one", null)))
		two.deliver(two.tx(insert(table, 100+i, "two", null)), two.tx(update(table, 100+i, "two again", null)))
		t.verify("with two streams by turns")
	}
}

func ckpWide(t *Trial) {
	table, s := t.basic(), t.stream()
	for i, lsn := range []uint64{1<<53 + 1, 1<<63 + 5, 1<<64 - 2} {
		s.wal = lsn - 48
		s.deliver(s.adjacent(insert(table, i, "a", null)))
		t.verify("at a position above " + []string{"2^53", "2^63", "2^64-3"}[i])
	}
	s.settle(&unit{txs: []*txn{{xid: 1, commit: 1<<63 - 50, end: 1<<63 - 2, changes: []change{insert(table, 9, "a", null)}}}, checkpoint: 1<<63 - 2, expected: s.durable})
	t.verify("after a replay below 2^63 of a stream above it")
}

func ckpSource(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	true_ := s.source
	for _, change := range []func(*sinkv1.SourceIdentity){
		func(i *sinkv1.SourceIdentity) { i.SystemIdentifier = "1111111111111111111" },
		func(i *sinkv1.SourceIdentity) { i.Database = "another" },
	} {
		s.source = proto.CloneOf(true_)
		change(s.source)
		_, err := s.tryRead(t.ctx)
		t.mustRefuse("a read for another source", err, codes.FailedPrecondition, "SOURCE_MISMATCH")
		_, err = s.tryClaim(t.ctx, s.epoch+1, s.sender)
		t.mustRefuse("a claim for another source", err, codes.FailedPrecondition, "SOURCE_MISMATCH")
	}
	s.source = proto.CloneOf(true_)
	s.source.Timeline, s.source.Slot = 7, "another_slot"
	if r := s.read(); r.GetEpoch() != s.epoch {
		t.failed("a refused claim changed the epoch")
	}
	s.claim()
	s.deliver(s.tx(insert(table, 2, "b", null)))
	t.verify("after a change of timeline and slot")
}

func ckpLineage(t *Trial) {
	s := t.stream()
	first := s.read().GetLineage()
	if len(first) == 0 {
		t.inapplicable("the sink keeps no lineage")
	}
	if len(first) != sinkv1.IDBytes {
		t.failed("lineage has %d bytes, not 16", len(first))
	}
	s.claim()
	t.bounce()
	if r := s.claim(); !bytes.Equal(r.GetLineage(), first) {
		t.failed("lineage is another after a claim and a restart")
	}
	if bytes.Equal(t.stream().read().GetLineage(), first) {
		t.failed("two streams have one lineage")
	}
}
