package conformance

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func tpc(id, title, reason, cause string, needs Need, run func(*Trial), rules ...string) Case {
	return Case{
		ID: id, Level: Must, Profile: TwoPhase, Needs: needs, Rules: rules, Title: title, Reason: reason, Cause: cause, Run: run,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_TWO_PHASE},
		Expect:       "no effect before CommitPrepared, all of it after, once",
	}
}

var tpcCases = []Case{
	tpc("TPC-001", "prepare, look, commit, look", "the decision lies between the two", "the rows are written at prepare", NeedProbe, tpcCommit, "S-2201"),
	tpc("TPC-002", "prepare, roll back", "what was not decided must leave nothing", "a rollback that only forgets the name", NeedProbe, tpcRollback, "S-2202"),
	tpc("TPC-003", "prepare, kill, restart, commit", "a decision is stored at the sidecar; the unit must be there for it",
		"prepared units are in memory", NeedProbe|NeedLifecycle, tpcKill, "S-2201"),
	tpc("TPC-004", "commit and rollback twice, other gids between", "an answer that was lost is asked for again",
		"the second commit applies again", NeedProbe, tpcTwice, "S-2401", "S-2501"),
	tpc("TPC-005", "commit and rollback of a gid that nobody prepared", "OK would say that a lost unit is there",
		"a missing name is taken for done", 0, tpcUnknown, "S-2401", "S-2501"),
	tpc("TPC-006", "Open, with a true and with a false expectation", "the sidecar compares identities; the sink tells its own",
		"the request's identity is echoed", 0, tpcOpen, "S-2101", "S-2102"),
	tpc("TPC-007", "ListPrepared and PreparedStatus through a unit's life", "recovery is made of these two",
		"a list of this process alone, or a status without evidence", 0, tpcList, "S-2601", "S-2701"),
	tpc("TPC-008", "each call with a lower epoch", "a sidecar that was replaced must not decide", "epochs are not remembered", 0, tpcEpoch, "S-2001"),
	tpc("TPC-009", "a broken change, and a request without a unit", "a unit that cannot be prepared leaves nothing",
		"what came before the fault is kept", NeedProbe, tpcBroken, "S-2203", "S-2202"),
	tpc("TPC-010", "a transaction in frames, its counts wrong, without a commit frame", "a large unit is prepared whole or not at all",
		"counts are not compared", NeedProbe, tpcLarge, "S-2301", "S-2302"),
	tpc("TPC-011", "crash points of Prepare and of CommitPrepared", "the unit is prepared or not, and committed or prepared",
		"the name and the rows in two store transactions", NeedProbe|NeedCrash, tpcCrash, "S-2201", "S-2401"),
}

// prepare prepares a unit of transactions.
func (s *stream) prepare(ctx context.Context, gid string, txs ...*txn) (*sinkv1.PrepareResponse, error) {
	u := s.unit(txs...)
	q := s.build(u)
	ctx, cancel := s.t.deadline(ctx)
	defer cancel()
	return s.t.link.two.Prepare(ctx, &sinkv1.PrepareRequest{
		Context: q.context, Gid: gid, CheckpointLsn: q.checkpoint,
		Unit: &sinkv1.PrepareRequest_Transactions{
			Transactions: &sinkv1.TransactionsUnit{Relations: q.relations, Transactions: q.transactions},
		},
	})
}

func (s *stream) commitPrepared(ctx context.Context, gid string, token []byte) error {
	ctx, cancel := s.t.deadline(ctx)
	defer cancel()
	_, err := s.t.link.two.CommitPrepared(ctx, &sinkv1.CommitPreparedRequest{Context: s.context(), Gid: gid, Token: token})
	return err
}

func (s *stream) rollbackPrepared(gid string) error {
	ctx, cancel := s.t.deadline(s.t.ctx)
	defer cancel()
	_, err := s.t.link.two.RollbackPrepared(ctx, &sinkv1.RollbackPreparedRequest{Context: s.context(), Gid: gid})
	return err
}

// twoPhaseStream opens a stream for two-phase delivery.
func (t *Trial) twoPhaseStream() *stream {
	s := t.libStream()
	ctx, cancel := t.deadline(t.ctx)
	defer cancel()
	if _, err := t.link.two.Open(ctx, &sinkv1.OpenRequest{Context: s.context(), Source: s.source}); err != nil {
		t.failed("Open is refused: %v", err)
	}
	return s
}

// prepared prepares and must succeed.
func (s *stream) prepared(gid string, txs ...*txn) []byte {
	r, err := s.prepare(s.t.ctx, gid, txs...)
	if err != nil {
		s.t.failed("Prepare is refused: %v", err)
	}
	if len(r.GetToken()) > sinkv1.MaxPreparedTokenBytes {
		s.t.failed("the token has %d bytes, more than 1 KiB", len(r.GetToken()))
	}
	return r.GetToken()
}

// committed commits and must succeed.
func (s *stream) committed(gid string, token []byte, txs ...*txn) {
	if err := s.commitPrepared(s.t.ctx, gid, token); err != nil {
		s.t.failed("CommitPrepared is refused: %v", err)
	}
	for _, tx := range txs {
		s.t.model.force(s.id, tx)
	}
}

func tpcCommit(t *Trial) {
	table, s := t.basic(), t.twoPhaseStream()
	for i := range 3 {
		gid, tx := s.gid(), s.tx(insert(table, i, "a", "b"), update(table, i, "c", kept))
		token := s.prepared(gid, tx)
		t.stillSame("after Prepare, before the commit")
		s.committed(gid, token, tx)
		t.stillSame("after CommitPrepared")
	}
}

func tpcRollback(t *Trial) {
	table, s := t.basic(), t.twoPhaseStream()
	gid := s.gid()
	s.prepared(gid, s.tx(insert(table, 1, "a", "b")))
	if err := s.rollbackPrepared(gid); err != nil {
		t.failed("RollbackPrepared is refused: %v", err)
	}
	t.stillSame("after RollbackPrepared")
	err := s.commitPrepared(t.ctx, gid, nil)
	t.mustRefuse("CommitPrepared of what was rolled back", err, codes.NotFound, "PREPARED_UNKNOWN")
	t.stillSame("after a commit of what was rolled back")
}

func tpcKill(t *Trial) {
	table, s := t.basic(), t.twoPhaseStream()
	gid, tx := s.gid(), s.tx(insert(table, 1, "a", "b"))
	token := s.prepared(gid, tx)
	t.bounce()
	t.stillSame("after Prepare and a kill")
	s.committed(gid, token, tx)
	t.stillSame("after CommitPrepared behind a kill")
	t.bounce()
	t.stillSame("after CommitPrepared and a kill")
}

// repeated judges the second answer of a decision: OK, or "unknown".
func (t *Trial) repeated(call string, err error) {
	if a := refusal(err); err != nil && (a.Code != codes.NotFound || a.Reason != "PREPARED_UNKNOWN") {
		t.differs(call+" again is answered in another way", "OK, or NOT_FOUND (PREPARED_UNKNOWN)", a.Error())
	}
}

func tpcTwice(t *Trial) {
	table := t.shaped(t.schema, "keyless", sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL, "name text", "note text")
	s := t.twoPhaseStream()
	gid, tx := s.gid(), s.tx(insert(table, "a", "b"))
	token := s.prepared(gid, tx)
	s.committed(gid, token, tx)
	t.repeated("CommitPrepared", s.commitPrepared(t.ctx, gid, token))
	t.stillSame("after CommitPrepared twice")
	other := s.gid()
	s.prepared(other, s.tx(insert(table, "c", "d")))
	t.repeated("CommitPrepared", s.commitPrepared(t.ctx, gid, token))
	t.stillSame("after CommitPrepared of an old gid beside a prepared one")
	for range 2 {
		t.repeated("RollbackPrepared", s.rollbackPrepared(other))
	}
	t.stillSame("after RollbackPrepared twice")
}

func tpcUnknown(t *Trial) {
	s := t.twoPhaseStream()
	gid := s.gid()
	t.mustRefuse("CommitPrepared of a gid that nobody prepared", s.commitPrepared(t.ctx, gid, nil), codes.NotFound, "PREPARED_UNKNOWN")
	t.mustRefuse("RollbackPrepared of a gid that nobody prepared", s.rollbackPrepared(gid), codes.NotFound, "PREPARED_UNKNOWN")
}

func tpcOpen(t *Trial) {
	s := t.libStream()
	open := func(expected *sinkv1.SinkIdentity) *sinkv1.OpenResponse {
		ctx, cancel := t.deadline(t.ctx)
		defer cancel()
		r, err := t.link.two.Open(ctx, &sinkv1.OpenRequest{Context: s.context(), Source: s.source, ExpectedIdentity: expected})
		if err != nil {
			t.failed("Open is refused: %v", err)
		}
		return r
	}
	first := open(nil)
	if first.GetIdentity().GetSystemIdentifier() == "" {
		t.failed("Open tells no identity")
	}
	if first.GetEvidence() == sinkv1.Evidence_EVIDENCE_UNSPECIFIED {
		t.failed("Open tells no evidence")
	}
	if l := first.GetLimits(); l.MaxPrepared != nil && l.GetMaxPrepared() == 0 {
		t.failed("max_prepared is 0: no unit can be prepared")
	}
	s.epoch++
	second := open(&sinkv1.SinkIdentity{SystemIdentifier: "9", Timeline: 9, Database: "elsewhere"})
	if second.GetIdentity().GetSystemIdentifier() != first.GetIdentity().GetSystemIdentifier() ||
		second.GetIdentity().GetDatabase() != first.GetIdentity().GetDatabase() {
		t.failed("Open tells the identity that it was asked for, not its own")
	}
}

// state asks what became of a gid.
func (s *stream) state(gid string, token []byte) sinkv1.PreparedState {
	ctx, cancel := s.t.deadline(s.t.ctx)
	defer cancel()
	r, err := s.t.link.two.PreparedStatus(ctx, &sinkv1.PreparedStatusRequest{Context: s.context(), Gid: gid, Token: token})
	if err != nil {
		s.t.failed("PreparedStatus is refused: %v", err)
	}
	return r.GetState()
}

// lists reports whether ListPrepared has a gid.
func (s *stream) lists(gid string) bool {
	ctx, cancel := s.t.deadline(s.t.ctx)
	defer cancel()
	r, err := s.t.link.two.ListPrepared(ctx, &sinkv1.ListPreparedRequest{Context: s.context()})
	if err != nil {
		s.t.failed("ListPrepared is refused: %v", err)
	}
	for _, p := range r.GetPrepared() {
		if p.GetGid() == gid {
			if p.GetAge().AsDuration() < 0 || p.GetAge().AsDuration() > time.Hour {
				s.t.failed("the age of a unit that was just prepared is %s", p.GetAge().AsDuration())
			}
			return true
		}
	}
	return false
}

func tpcList(t *Trial) {
	table, s := t.basic(), t.twoPhaseStream()
	evidence := true
	if r, err := t.link.two.Open(t.ctx, &sinkv1.OpenRequest{Context: s.context(), Source: s.source}); err == nil {
		evidence = r.GetEvidence() != sinkv1.Evidence_EVIDENCE_NONE
	}
	one, two := s.gid(), s.gid()
	tx := s.tx(insert(table, 1, "a", "b"))
	token := s.prepared(one, tx)
	other := s.prepared(two, s.tx(insert(table, 2, "a", "b")))
	if !s.lists(one) || !s.lists(two) {
		t.failed("ListPrepared does not list what is prepared")
	}
	if st := s.state(one, token); st != sinkv1.PreparedState_PREPARED_STATE_PREPARED {
		t.differs("PreparedStatus of what is prepared", "PREPARED", st.String())
	}
	if t.session.lifecycle() {
		t.bounce()
		if !s.lists(one) {
			t.failed("ListPrepared does not list what was prepared before a restart")
		}
	}
	s.committed(one, token, tx)
	if err := s.rollbackPrepared(two); err != nil {
		t.failed("RollbackPrepared is refused: %v", err)
	}
	if s.lists(one) || s.lists(two) {
		t.failed("ListPrepared lists what was decided")
	}
	want := func(what string, st, proof sinkv1.PreparedState) {
		unknown := sinkv1.PreparedState_PREPARED_STATE_UNKNOWN
		if st != proof && (evidence || st != unknown) {
			t.differs("PreparedStatus of what was "+what, proof.String(), st.String())
		}
	}
	want("committed", s.state(one, token), sinkv1.PreparedState_PREPARED_STATE_COMMITTED)
	want("rolled back", s.state(two, other), sinkv1.PreparedState_PREPARED_STATE_NOT_COMMITTED)
}

func tpcEpoch(t *Trial) {
	table, s := t.basic(), t.twoPhaseStream()
	gid := s.gid()
	s.epoch = 9
	token := s.prepared(gid, s.tx(insert(table, 1, "a", null)))
	s.epoch = 8
	ctx, cancel := t.deadline(t.ctx)
	defer cancel()
	_, open := t.link.two.Open(ctx, &sinkv1.OpenRequest{Context: s.context(), Source: s.source})
	_, list := t.link.two.ListPrepared(ctx, &sinkv1.ListPreparedRequest{Context: s.context()})
	_, status := t.link.two.PreparedStatus(ctx, &sinkv1.PreparedStatusRequest{Context: s.context(), Gid: gid, Token: token})
	_, prepare := s.prepare(ctx, s.gid(), s.tx(insert(table, 2, "b", null)))
	for call, err := range map[string]error{
		"Open": open, "ListPrepared": list, "PreparedStatus": status, "Prepare": prepare,
		"CommitPrepared": s.commitPrepared(ctx, gid, token), "RollbackPrepared": s.rollbackPrepared(gid),
	} {
		t.mustRefuse(call+" with a lower epoch", err, codes.FailedPrecondition, "FENCED")
	}
	s.epoch = 9
	if err := s.rollbackPrepared(gid); err != nil {
		t.failed("RollbackPrepared is refused: %v", err)
	}
}

func tpcBroken(t *Trial) {
	table, s := t.basic(), t.twoPhaseStream()
	u := s.unit(s.tx(insert(table, 1, "a", null), insert(table, 2, "b", null), insert(table, 3, "c", null)))
	q := s.build(u)
	q.transactions[0].Changes[1].RelationIndex = 77
	ctx, cancel := t.deadline(t.ctx)
	defer cancel()
	gid := s.gid()
	_, err := t.link.two.Prepare(ctx, &sinkv1.PrepareRequest{
		Context: q.context, Gid: gid, Unit: &sinkv1.PrepareRequest_Transactions{
			Transactions: &sinkv1.TransactionsUnit{Relations: q.relations, Transactions: q.transactions},
		},
	})
	t.mustRefuse("Prepare of a broken unit", err, codes.InvalidArgument, "")
	if s.lists(gid) {
		t.failed("a unit that was refused is listed as prepared")
	}
	t.stillSame("after a broken unit")
	_, err = t.link.two.Prepare(ctx, &sinkv1.PrepareRequest{Context: s.context(), Gid: s.gid()})
	t.mustRefuse("Prepare without a unit", err, codes.InvalidArgument, "")
}
