package conformance

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

var errCases = []Case{
	{
		ID: "ERR-001", Level: Must, Profile: Core, Needs: NeedProbe, Rules: []string{"S-116", "V-103", "V-104"},
		Title:  "relation_index out of range; letters and values of the wrong number; unknown letters; missing parts",
		Reason: "what does not fit is a fault of ours, and must not become a row",
		Expect: "INVALID_ARGUMENT, and nothing applied", Cause: "a zip that stops at the shorter list", Run: errBroken,
	},
	{
		ID: "ERR-002", Level: Must, Profile: Core, Needs: NeedProbe, Rules: []string{"W-105", "S-116"},
		Title:  "an op that nobody knows, and one that is not set",
		Reason: "a later version's op stands where data stands",
		Expect: "INVALID_ARGUMENT, and nothing applied", Cause: "an else branch that does nothing", Run: errOp,
	},
	{
		ID: "ERR-003", Level: Must, Profile: Core, Rules: []string{"L-108", "E-101"},
		Title:  "the statuses of all refused calls of this run, and of a few more",
		Reason: "a status travels in headers: a long or broken one becomes another error",
		Expect: "at most 1 KiB of UTF-8, details of known types, 4 KiB of them at most",
		Cause:  "a driver's text, or a whole statement", Run: errTexts,
	},
	{
		ID: "ERR-004", Level: Must, Profile: Core, Needs: NeedProbe | NeedProxy, Rules: []string{"E-104", "S-101"},
		Title:  "the store is away for a while, and comes back",
		Reason: "stores restart", Expect: "UNAVAILABLE, ABORTED or DEADLINE_EXCEEDED meanwhile, then OK without a restart of the sink",
		Cause: "a pool that keeps dead connections", Run: errStore,
	},
	{
		ID: "ERR-005", Level: Must, Profile: Core, Rules: []string{"S-108"},
		Title:  "the codes of all calls of this run",
		Reason: "\"already there\" halts the sidecar", Expect: "ALREADY_EXISTS never",
		Cause: "a unique violation passed on", Run: errCodes,
	},
	{
		ID: "ERR-006", Level: Must, Profile: Core, Title: "a unit with one row that cannot be stored, and the rest applied",
		LeftOut: "this contract has no declined rows: a unit is stored whole or refused",
	},
	{
		ID: "ERR-007", Level: Must, Profile: Core, Needs: NeedProbe, Rules: []string{"S-103"},
		Title:  "a call that does not say who keeps the checkpoint",
		Reason: "the two owners have different fences; a guess is one too few",
		Expect: "INVALID_ARGUMENT, and nothing applied", Cause: "a default", Run: errOwner,
	},
}

// broken are the ways in which a request can be broken, by name.
func brokenRequests() map[string]func(*request) {
	row := func(edit func(*sinkv1.Change)) func(*request) {
		return func(r *request) { edit(r.transactions[0].Changes[1]) }
	}
	return map[string]func(*request){
		"relation_index out of range": row(func(c *sinkv1.Change) { c.RelationIndex = 9 }),
		"a letter too few":            row(func(c *sinkv1.Change) { c.NewRow.Kinds = c.NewRow.Kinds[:2] }),
		"a value too few":             row(func(c *sinkv1.Change) { c.NewRow.Values = c.NewRow.Values[:2] }),
		"a letter and a value too few": row(func(c *sinkv1.Change) {
			c.NewRow.Kinds, c.NewRow.Values = c.NewRow.Kinds[:2], c.NewRow.Values[:2]
		}),
		"a letter too many":     row(func(c *sinkv1.Change) { c.NewRow.Kinds += "t" }),
		"the letter b":          row(func(c *sinkv1.Change) { c.NewRow.Kinds = "ttb" }),
		"the letter z":          row(func(c *sinkv1.Change) { c.NewRow.Kinds = "tzt" }),
		"no row":                row(func(c *sinkv1.Change) { c.NewRow = nil }),
		"a truncate of no list": row(func(c *sinkv1.Change) { c.Op, c.NewRow = sinkv1.ChangeOp_CHANGE_OP_TRUNCATE, nil }),
		"a truncate of a relation_index out of range": row(func(c *sinkv1.Change) {
			c.Op, c.NewRow = sinkv1.ChangeOp_CHANGE_OP_TRUNCATE, nil
			c.Truncate = &sinkv1.Truncate{RelationIndexes: []uint32{9}}
		}),
		"a delete without an old row":      row(func(c *sinkv1.Change) { asDelete(c, nil) }),
		"a delete by an old row too short": row(func(c *sinkv1.Change) { asDelete(c, cells(1)) }),
		"a delete by an old row of the letter z": row(func(c *sinkv1.Change) {
			asDelete(c, cells(1, null, null))
			c.OldRow.Kinds = "tzn"
		}),
		shortOldRow: row(func(c *sinkv1.Change) {
			c.Op, c.OldRow, c.OldRowKind = sinkv1.ChangeOp_CHANGE_OP_UPDATE, wireRow(cells(1)), sinkv1.OldRowKind_OLD_ROW_KIND_KEY
		}),
	}
}

// shortOldRow is a way to break a request.
const shortOldRow = "an update by an old row too short"

// asDelete makes of a change a delete by this old row.
func asDelete(c *sinkv1.Change, old []cell) {
	c.Op, c.NewRow = sinkv1.ChangeOp_CHANGE_OP_DELETE, nil
	c.OldRow, c.OldRowKind = wireRow(old), sinkv1.OldRowKind_OLD_ROW_KIND_KEY
}

func errBroken(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	ways := brokenRequests()
	if t.session.log() { // which may keep the new row alone
		delete(ways, shortOldRow)
	}
	s.byEach(func(r road) {
		for _, name := range sortedKeys(ways) {
			u := s.unit(s.tx(insert(table, 2, t.canary("b"), "c"), insert(table, 3, t.canary("d"), "e")))
			u.edit = ways[name]
			_, err := s.send(t.ctx, u)
			t.mustRefuse(calls[r]+" with "+name, err, codes.InvalidArgument, "")
			t.verify("after a unit with " + name + " by " + calls[r])
		}
	})
	s.deliver(s.tx(insert(table, 4, "good", null)))
	t.verify("after a good unit")
}

func errOp(t *Trial) {
	table, s := t.basic(), t.stream()
	for _, op := range []sinkv1.ChangeOp{99, sinkv1.ChangeOp_CHANGE_OP_UNSPECIFIED} {
		u := s.unit(s.tx(insert(table, 2, "b", "c"), insert(table, 3, "d", "e")))
		u.edit = func(r *request) { r.transactions[0].Changes[1].Op = op }
		_, err := s.send(t.ctx, u)
		t.mustRefuse("a unit with an unknown op", err, codes.InvalidArgument, "")
		t.verify("after a unit with an unknown op")
	}
}

// provoke makes a few calls that are refused, with canaries in every value.
func (t *Trial) provoke() {
	table, s := t.basic(), t.stream()
	ways := brokenRequests()
	for _, name := range sortedKeys(ways) {
		u := s.unit(s.tx(insert(table, 2, t.canary("b"), t.canary("c")), insert(table, 3, t.canary("d"), t.canary("impossible"))))
		u.edit = ways[name]
		_, _ = s.send(t.ctx, u)
	}
	strange := t.table("strange", "id int4 key", "name unmappable")
	_, _ = s.send(t.ctx, s.unit(s.tx(insert(strange, 1, t.canary("impossible")))))
	u := s.unit(s.tx(insert(table, 9, t.canary("behind"), null)))
	above := u.checkpoint + 8
	u.expected = &above
	_, _ = s.send(t.ctx, u)
	late := s.unit(s.tx(insert(table, 8, t.canary("late"), null)))
	ctx, cancel := context.WithTimeout(t.ctx, time.Microsecond)
	defer cancel()
	_, _ = s.send(ctx, late)
}

func (t *Trial) clean(list *[]string, what string) {
	if found := t.session.witness.of(list); len(found) > 0 {
		t.differs(what, "never", strings.Join(found, "; "))
	}
}

func errTexts(t *Trial) {
	t.provoke()
	t.clean(&t.session.witness.texts, "a status is too long, is not UTF-8, or has details of another type")
}

func errCodes(t *Trial) {
	table, s := t.basic(), t.stream()
	u := s.unit(s.tx(insert(table, 1, "a", null)))
	for range 3 {
		_, _ = s.send(t.ctx, u)
	}
	s.durable = nil
	u = s.unit(s.tx())
	for range 3 {
		_, _ = s.send(t.ctx, u)
	}
	t.clean(&t.session.witness.codes, "ALREADY_EXISTS was answered")
}

func errOwner(t *Trial) {
	if t.session.onlyTwoPhase() {
		t.inapplicable("the sidecar keeps the checkpoint of every two-phase stream")
	}
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	owner := s.owner
	for _, other := range []sinkv1.CheckpointOwner{sinkv1.CheckpointOwner_CHECKPOINT_OWNER_UNSPECIFIED, 77} {
		u := s.unit(s.tx(insert(table, 2, "b", null)))
		u.edit = func(r *request) { r.context.CheckpointOwner = other }
		s.refused(u, codes.InvalidArgument, "")
		s.owner = owner
		t.verify("after a unit of nobody's checkpoint")
	}
}

// afresh restarts the sink where the case failed: one that does not find its store again
// would fail every case that follows, too.
func (t *Trial) afresh() {
	p := recover()
	if p == nil {
		return
	}
	if t.session.lifecycle() {
		_ = t.session.o.Target.Kill(t.ctx)
		_ = t.session.o.Target.Start(t.ctx)
	}
	panic(p)
}

// errStore needs a proxy that can be shut and opened.
func errStore(t *Trial) {
	gate, ok := t.session.o.Proxy.(interface {
		Shut()
		Open()
	})
	if !ok {
		t.impossible("the proxy cannot be shut")
	}
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	token := s.armed()
	gate.Shut()
	s.askedAway(gate.Open, token)
	u := s.unit(s.tx(insert(table, 2, "b", null)))
	for range 4 {
		ctx, cancel := context.WithTimeout(t.ctx, 2*time.Second)
		_, err := s.send(ctx, u)
		cancel()
		switch a := refusal(err); a.Code {
		case codes.Unavailable, codes.Aborted, codes.DeadlineExceeded:
		default:
			gate.Open()
			t.differs("a call while the store is away is answered in another way", "UNAVAILABLE or ABORTED", a.Error())
		}
	}
	gate.Open()
	defer t.afresh()
	t.wait("a unit after the store came back", func() bool {
		ctx, cancel := context.WithTimeout(t.ctx, 5*time.Second)
		defer cancel()
		_, err := s.send(ctx, u)
		return err == nil
	})
	s.apply(u)
	t.verify("after the store came back")
}

// armed stores a token where the sink keeps one; nil elsewhere.
func (s *stream) armed() []byte {
	if !s.t.has(sinkv1.Capability_CAPABILITY_SNAPSHOT) || !s.t.has(sinkv1.Capability_CAPABILITY_SNAPSHOT_PROGRESS) {
		return nil
	}
	c, token := s.copying(), []byte("before the store was away")
	s.put(chunk{run: c.run, generation: c.generation}.with(token))
	return token
}

// askedAway asks for position and token while the store is away. What cannot be read is an
// error: "absent" would make a sidecar begin anew. A sink that still knows may say so.
func (s *stream) askedAway(open func(), token []byte) {
	judge := func(call string, err error, right bool) {
		switch a := refusal(err); {
		case err == nil && right, a.Code == codes.Unavailable, a.Code == codes.Aborted, a.Code == codes.DeadlineExceeded:
		case err == nil:
			open()
			s.t.differs(call+" while the store is away answers what is not so", "an error, or what is stored", "OK with something else, or with nothing")
		default:
			open()
			s.t.differs(call+" while the store is away is answered in another way", "UNAVAILABLE or ABORTED", a.Error())
		}
	}
	ctx, cancel := context.WithTimeout(s.t.ctx, 2*time.Second)
	defer cancel()
	if s.sinkOwned() {
		r, err := s.tryRead(ctx)
		judge("Checkpoint", err, r.GetPosition() == *s.durable)
	}
	if token != nil {
		ctx, cancel := context.WithTimeout(s.t.ctx, 2*time.Second)
		defer cancel()
		r, err := s.t.link.sink.SnapshotProgress(ctx, &sinkv1.SnapshotProgressRequest{StreamId: s.id, Source: s.source})
		judge("SnapshotProgress", err, string(r.GetProgressToken()) == string(token))
	}
}

var piiCases = []Case{
	{
		ID: "PII-001", Level: Must, Profile: Core, Rules: []string{"E-103"},
		Title:  "canaries in the values of refused calls, looked for in every status",
		Reason: "the sink's texts reach logs that nobody guards as data",
		Expect: "never in a message, a detail or a trailer", Cause: "a driver's error text", Run: piiStatus,
	},
	{
		ID: "PII-002", Level: Should, Profile: Core, Needs: NeedLifecycle, Rules: []string{"E-103"},
		Title:  "the same canaries, looked for in what the sink prints",
		Reason: "so do its own logs", Expect: "never", Cause: "requests or statements are logged", Run: piiOutput,
	},
	{
		ID: "PII-003", Level: Must, Profile: TLS, Needs: NeedTLS, Rules: []string{"E-103"},
		Title: "credentials, looked for in statuses and output", Reason: "a secret in a log is none",
		Expect: "never", Cause: "headers are logged", Run: piiToken,
	},
}

func piiStatus(t *Trial) {
	t.provoke()
	t.clean(&t.session.witness.leaks, "a status holds row values")
}

func piiOutput(t *Trial) {
	t.provoke()
	if strings.Contains(t.session.o.Target.Output(), t.session.canary) {
		t.failed("what the sink prints holds row values")
	}
}

var oprCases = []Case{
	{
		ID: "OPR-001", Level: Should, Profile: Core, Needs: NeedProbe | NeedLifecycle, Rules: []string{"S-101"},
		Title:  "SIGTERM during a call",
		Reason: "an orderly stop should be one", Expect: "gone within 10 s, the call whole or not at all",
		Cause: "no handler for the signal, or one that waits for ever", Run: oprStop,
	},
	{
		ID: "OPR-002", Level: Must, Profile: Core, Needs: NeedProbe, Rules: []string{"S-115"},
		Title:  "the counts of all answers of this run, and of a few more",
		Reason: "the sidecar compares them, and reports what differs", Expect: "what changed; or no counts",
		Cause: "what was asked is counted, not what was done", Run: oprCounts,
	},
}

func oprStop(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	u := s.rewrite(table, t.manyRows()/4, "stopped")
	r := s.pick(u)
	q := s.build(u)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.post(t.ctx, u, r, q)
	}()
	pause(t.ctx, 5)
	ctx, cancel := context.WithTimeout(t.ctx, 10*time.Second)
	err := t.session.o.Target.Stop(ctx)
	cancel()
	<-done
	if err != nil {
		t.kill()
		t.failed("the sink is not gone 10 s after SIGTERM: %v", err)
	}
	t.restart()
	if s.sinkOwned() {
		s.claim()
		t.decided(s, u)
	}
}

func oprCounts(t *Trial) {
	table, s := t.basic(), t.stream()
	two := t.table("second", "id int4 key", "name text")
	tx := s.tx(insert(table, 1, "a", null), insert(table, 2, "b", null), insert(two, 1, "c"), update(table, 1, "x", null), remove(table, 2))
	s.deliver(tx)
	s.deliver(tx)
	s.deliver(s.tx(truncate(table, two)), s.tx(insert(table, 3, "a", null)))
	t.clean(&t.session.witness.counts, "counts are not true")
	t.session.witness.mu.Lock()
	t.note("%d answers had counts", t.session.witness.counted)
	t.session.witness.mu.Unlock()
}
