package conformance

import (
	"context"
	"errors"
	"strings"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func msg(id, title, reason, cause string, needs Need, run func(*Trial), rules ...string) Case {
	return Case{
		ID: id, Level: Must, Profile: Messages, Needs: NeedProbe | needs, Rules: rules, Title: title, Reason: reason, Cause: cause, Run: run,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_MESSAGE, sinkv1.Capability_CAPABILITY_CHECKPOINT},
		Expect:       "each message once, its bytes as sent, in its place",
	}
}

var msgCases = []Case{
	msg("MSG-001", "messages outside of transactions: empty, binary, unicode; each again", "a message is a unit with a position",
		"its position is not stored with it", 0, msgAlone, "S-701", "S-703"),
	msg("MSG-002", "messages between the changes of a transaction; the transaction again", "a message has a place among the changes",
		"messages are kept apart, and written at the end", 0, msgInside, "S-408", "S-106"),
	msg("MSG-003", "crash points of a message", "effect and position are one",
		"two commits", NeedCrash, msgCrash, "S-701", "S-102"),
}

// message makes the next message that stands alone.
func (s *stream) message(prefix, content []byte) *sinkv1.LogicalMessage {
	s.wal += 40
	return &sinkv1.LogicalMessage{Lsn: s.wal, Prefix: prefix, Content: content}
}

func (s *stream) sendMessage(ctx context.Context, m *sinkv1.LogicalMessage) error {
	ctx, cancel := s.t.deadline(ctx)
	defer cancel()
	at := m.GetLsn()
	r, err := s.t.link.sink.HandleMessage(ctx, &sinkv1.HandleMessageRequest{
		Context: s.context(), ExpectedCheckpoint: s.durable, CheckpointLsn: &at, Message: m,
	})
	if err == nil && s.sinkOwned() && r.GetCheckpointLsn() != at {
		s.t.differs("HandleMessage answers another position", lsnText(at), lsnText(r.GetCheckpointLsn()))
	}
	return err
}

// tellMessage sends a message, which must be answered OK.
func (s *stream) tellMessage(m *sinkv1.LogicalMessage) {
	if err := s.sendMessage(s.t.ctx, m); err != nil {
		s.t.failed("HandleMessage is refused: %v", err)
	}
	s.told(m)
}

// told is what a message does to the model.
func (s *stream) told(m *sinkv1.LogicalMessage) {
	model := s.t.model
	if m.GetLsn() > model.positions[s.id] {
		model.positions[s.id] = m.GetLsn()
		model.logs[s.id] = append(model.logs[s.id], LogEntry{
			CommitLSN: m.GetLsn(), Op: "message", Prefix: m.GetPrefix(), Content: m.GetContent(),
		})
	}
	at := model.positions[s.id]
	s.durable = &at
}

// said compares the messages that the sink keeps.
func (t *Trial) said(s *stream, when string) {
	if d := t.messages(t.model, s); d != "" {
		t.failed("messages differ %s: %s", when, d)
	}
	s.verifyPosition(when)
}

func (t *Trial) messages(m *model, s *stream) string {
	have, err := t.session.o.Probe.ReadLog(t.ctx, s.id)
	if errors.Is(err, ErrNoLog) {
		t.impossible("the probe reads no log, where messages would be")
	}
	t.need(err)
	only := func(all []LogEntry) []LogEntry {
		var out []LogEntry
		for _, e := range all {
			if e.Op == "message" {
				out = append(out, e)
			}
		}
		return out
	}
	return compareLog(only(m.logs[s.id]), only(have))
}

func msgAlone(t *Trial) {
	table, s := t.basic(), t.stream()
	for _, m := range []*sinkv1.LogicalMessage{
		s.message(nil, nil), s.message([]byte("prefix"), []byte("content")),
		s.message([]byte("größe 😀"), []byte{0, 1, 0xff, 0xfe}), s.message([]byte("caf\xe9"), []byte{}),
		s.message([]byte(strings.Repeat("p", 3000)), t.bytes(100_000)),
	} {
		s.tellMessage(m)
		t.said(s, "after a message")
		s.tellMessage(m)
		t.said(s, "after the same message again")
	}
	old := s.message([]byte("old"), nil)
	s.tellMessage(old)
	s.deliver(s.tx(insert(table, 1, "a", null)))
	s.tellMessage(old)
	t.said(s, "after a message from below the position")
}

func inner(s *stream, prefix, content string) change {
	return change{op: sinkv1.ChangeOp_CHANGE_OP_MESSAGE, message: &sinkv1.LogicalMessage{
		Transactional: true, Lsn: s.wal + 4, Prefix: []byte(prefix), Content: []byte(content),
	}}
}

func msgInside(t *Trial) {
	table, s := t.basic(), t.stream()
	tx := s.tx(insert(table, 1, "a", null), inner(s, "between", "\x00\xff"), update(table, 1, "b", null), inner(s, "", ""))
	s.deliver(tx)
	t.said(s, "after a transaction with messages")
	s.deliver(tx)
	t.said(s, "after the same transaction again")
	t.verify("after a transaction with messages")
	if t.has(sinkv1.Capability_CAPABILITY_LARGE_TRANSACTION) {
		s.deliverLarge(s.tx(inner(s, "first", "1"), insert(table, 2, "a", null), inner(s, "last", "2")), 1)
		t.said(s, "after a large transaction with messages")
	}
}

func msgCrash(t *Trial) {
	t.crash("message", func() *scene {
		s := t.stream()
		s.tellMessage(s.message([]byte("before"), nil))
		m := s.message([]byte("killed"), []byte("content"))
		sc := &scene{
			stream: s,
			act:    func(ctx context.Context) error { return s.sendMessage(ctx, m) },
			done:   func() { s.told(m) },
			redo:   func() { s.claim(); s.tellMessage(m) },
		}
		sc.stateBefore, sc.stateAfter = "before", "after"
		sc.state = func() string {
			switch {
			case t.messages(sc.before, s) == "":
				return "before"
			case t.messages(sc.after, s) == "":
				return "after"
			}
			return "neither"
		}
		return sc
	})
}

func res(id, title, reason, cause string, needs Need, run func(*Trial), rules ...string) Case {
	return Case{
		ID: id, Level: Must, Profile: Resume, Needs: needs, Rules: rules, Title: title, Reason: reason, Cause: cause, Run: run,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_RESUME_STATE, sinkv1.Capability_CAPABILITY_CHECKPOINT},
		Expect:       "what the last stored unit brought, bit by bit",
	}
}

var resCases = []Case{
	res("RES-001", "resume states with every byte, of 1 MiB, empty; a stream that nobody knows", "it holds the shapes that a schema halt needs after a restart",
		"a text column", 0, resBytes, "S-114", "S-307"),
	res("RES-002", "units without one behind a unit with one", "absent keeps what is stored",
		"the column is overwritten with nothing", 0, resKeep, "S-114"),
	res("RES-003", "a replay with an older one", "a replay changes nothing",
		"it is stored apart from the position", 0, resReplay, "S-108", "S-114"),
	res("RES-004", "crash points of a unit with one", "it goes with the position, or a restart reads the wrong shapes",
		"a second store transaction", NeedProbe|NeedCrash, resCrash, "S-114", "S-102"),
}

func (s *stream) wantResume(when string, want []byte) {
	have := s.read().ResumeState
	if string(have) != string(want) || (have == nil) != (want == nil) {
		s.t.differs("resume_state is another "+when, tokenSize(want), tokenText(have, want))
	}
}

func tokenSize(b []byte) string {
	if b == nil {
		return "absent"
	}
	return tokenText(b, nil)
}

func (s *stream) withState(state []byte) *unit {
	u := s.idle()
	u.resume = state
	return u
}

func resBytes(t *Trial) {
	s := t.stream()
	s.wantResume("of a stream that never had one", nil)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, state := range [][]byte{{0}, {0xff, 0}, every, t.bytes(sinkv1.MaxResumeStateBytes), []byte("short"), {}} {
		s.settle(s.withState(state))
		s.wantResume("after a unit that brought one", state)
	}
	table := t.basic()
	s.byEach(func(r road) {
		u := s.unit(s.tx(insert(table, 1, "a", null)))
		u.resume = []byte("by " + calls[r])
		s.settle(u)
		s.wantResume("after a transaction by "+calls[r], u.resume)
	})
	s.otherStates()
}

// otherStates brings states by the calls that are no transactions.
func (s *stream) otherStates() {
	ctx, cancel := s.t.deadline(s.t.ctx)
	defer cancel()
	if s.t.has(sinkv1.Capability_CAPABILITY_MESSAGE) {
		m := s.message([]byte("p"), []byte("c"))
		at, state := m.GetLsn(), []byte("by a message")
		_, err := s.t.link.sink.HandleMessage(ctx, &sinkv1.HandleMessageRequest{
			Context: s.context(), ExpectedCheckpoint: s.durable, CheckpointLsn: &at, Message: m, ResumeState: state,
		})
		if err != nil {
			s.t.failed("HandleMessage with a resume state is refused: %v", err)
		}
		s.told(m)
		s.wantResume("after a message that brought one", state)
	}
	if s.t.has(sinkv1.Capability_CAPABILITY_SNAPSHOT_COMPLETE) && !s.t.session.onlyTwoPhase() {
		s := s.t.stream() // a completion is the first position of its stream
		at, state, c := s.wal, []byte("by a completion"), s.copying()
		_, err := s.t.link.sink.HandleSnapshotComplete(ctx, &sinkv1.HandleSnapshotCompleteRequest{
			Context: s.context(), ExpectedCheckpoint: s.durable, CheckpointLsn: &at, ResumeState: state,
			Completion: &sinkv1.SnapshotCompletion{RunId: c.run, Generation: c.generation},
		})
		if err != nil {
			s.t.failed("HandleSnapshotComplete with a resume state is refused: %v", err)
		}
		s.completed()
		s.wantResume("after a completion that brought one", state)
	}
}

func resKeep(t *Trial) {
	table, s := t.basic(), t.stream()
	s.settle(s.withState([]byte("kept")))
	s.deliver(s.tx(insert(table, 1, "a", null)))
	s.settle(s.idle())
	s.wantResume("after units without one", []byte("kept"))
	if r := s.claim(); t.session.stored() && string(r.GetResumeState()) != "kept" {
		t.failed("a claim does not answer resume_state")
	}
	s.wantResume("after a claim", []byte("kept"))
}

func resReplay(t *Trial) {
	s := t.stream()
	old := s.withState([]byte("old"))
	s.settle(old)
	s.settle(s.withState([]byte("new")))
	s.settle(old)
	s.wantResume("after a replay with an older one", []byte("new"))
}

func resCrash(t *Trial) {
	t.crash("unit with a resume state", func() *scene {
		table, s := t.basic(), t.stream()
		s.settle(s.withState([]byte("old")))
		tx := s.tx(insert(table, 1, "a", null))
		u := s.unit(tx)
		u.resume = []byte("new")
		return &scene{
			stream: s,
			act:    func(ctx context.Context) error { _, err := s.send(ctx, u); return err },
			done:   func() { s.apply(u) },
			redo:   func() { s.claim(); s.redeliver(u) },
			state:  func() string { return string(s.read().GetResumeState()) }, stateBefore: "old", stateAfter: "new",
		}
	})
}
