package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// crashPointsUsual is how many crash points of a call are visited at most.
const crashPointsUsual = 60

// scene is one call whose crash points are visited, on a stream and tables of its own.
type scene struct {
	stream *stream
	// act makes the call. done is what it does to the model; both models are taken
	// around it.
	act  func(ctx context.Context) error
	done func()
	// redo makes the call again after the crash, as a sidecar would, and must succeed.
	redo func()
	// twice: made again, it stands twice in a log, which merges nothing.
	twice bool
	// state is something else that must go with the rows, a token say.
	state func() string

	before, after           *model
	stateBefore, stateAfter string
}

// delivery is the scene of a unit of transactions.
func (t *Trial) delivery(s *stream, txs ...*txn) *scene {
	u := s.unit(txs...)
	return &scene{
		stream: s,
		act:    func(ctx context.Context) error { _, err := s.send(ctx, u); return err },
		done:   func() { s.apply(u) },
		redo: func() {
			s.claim()
			s.deliver(txs...)
		},
	}
}

// crash visits the crash points of one call. set brings a new stream and new tables into
// the state before the call, and says what the call is.
func (t *Trial) crash(label string, set func() *scene) {
	var now *scene
	var thrown any
	schema := t.schema
	guard := func(do func()) (err error) {
		defer func() {
			if p := recover(); p != nil {
				thrown, err = p, errors.New("the case ended")
			}
		}()
		do()
		return nil
	}
	plan := CrashPlan{Label: label, Limit: t.session.crashPoints(), Seed: t.session.caseSeed(t.of)}
	plan.Prepare = func(_ context.Context, n int) error {
		return guard(func() {
			t.schema = fmt.Sprintf("%s_%s%d", schema, strings.ToLower(label[:1]), n)
			t.model, t.streams, t.shapes = newModel(), nil, map[tableName]*shape{}
			t.relink()
			now = set()
			now.before = t.model.clone()
			durable := now.stream.durable
			now.done()
			now.stream.durable = durable // it is not done yet
			now.after = t.model.clone()
			t.model = now.before.clone()
		})
	}
	plan.Act = func(ctx context.Context, _ int) error {
		start := time.Now()
		err := now.act(ctx)
		if err == nil {
			plan.Baseline = time.Since(start)
		}
		return err
	}
	plan.Judge = func(_ context.Context, n int) (side CrashSide, detail string, err error) {
		if t.of.Needs&NeedProxy != 0 {
			t.did(fmt.Sprintf("the store was cut off (run %d)", n))
		} else {
			t.did(fmt.Sprintf("the sink was killed (run %d)", n))
		}
		err = guard(func() { side, detail = t.judge(now) })
		return side, detail, err
	}
	t.visit(plan, &thrown)
	t.schema = schema
	t.model, t.streams, t.shapes = newModel(), nil, map[tableName]*shape{}
	t.relink()
}

// relink connects anew and waits until the sink answers.
func (t *Trial) relink() {
	t.link.close()
	t.link = t.open()
	t.up()
}

func (s *session) crashPoints() int {
	switch {
	case s.o.CrashPoints < 0:
		return 0
	case s.o.CrashPoints == 0:
		return crashPointsUsual
	}
	return s.o.CrashPoints
}

// visit lets the first crasher that works run the plan.
func (t *Trial) visit(plan CrashPlan, thrown *any) {
	var tried []error
	for _, c := range t.crashers() {
		m, err := c.Visit(t.ctx, plan)
		if *thrown != nil {
			panic(*thrown)
		}
		if err != nil && len(m.Points) == 0 && t.ctx.Err() == nil {
			tried = append(tried, fmt.Errorf("%s: %w", c.Engine(), err))
			continue
		}
		if len(m.Points) > 0 {
			t.result.Crashes = append(t.result.Crashes, m)
		}
		t.need(err)
		if t.of.Needs&NeedProxy == 0 { // what works for a cut is no way to kill
			t.session.crasher = c
		}
		for _, p := range m.Points {
			if p.Side == Torn {
				how := fmt.Sprintf("killed at call %d (%s)", p.N, p.Call)
				if t.of.Needs&NeedProxy != 0 {
					how = fmt.Sprintf("cut off from its store at piece %d (%s)", p.N, p.Call)
				}
				t.differs(fmt.Sprintf("%s of %q, the sink comes back torn", how, plan.Label),
					"rows and checkpoint both before, or both after", p.Detail)
			}
		}
		if len(tried) > 0 {
			t.note("fell back to %s: %v", c.Engine(), errors.Join(tried...))
		}
		return
	}
	t.broken(fmt.Errorf("no crash point was reached: %w", errors.Join(tried...)))
}

func (t *Trial) crashers() []Crasher {
	if t.of.Needs&NeedProxy != 0 {
		return []Crasher{t.session.o.Proxy}
	}
	if t.session.crasher != nil {
		return []Crasher{t.session.crasher}
	}
	return t.session.o.Crashers
}

// judge tells on which side of the call the store is, and then makes the call again.
func (t *Trial) judge(now *scene) (CrashSide, string) {
	t.relink()
	side, detail := t.side(now)
	if side == Torn {
		// A database may still be at the commit that a dead sink sent, between our two looks.
		// A claim returns after a write in progress.
		now.stream.claim()
		side, detail = t.side(now)
	}
	if side == Torn {
		return side, detail
	}
	if side == After {
		t.model = now.after.clone()
	}
	now.redo()
	t.model.positions = now.after.positions
	if now.stream.sinkOwned() { // a lib unit may come twice, and stands there twice
		want := now.after
		if now.twice && t.session.log() {
			want = t.model
		}
		if f := t.compare(want, "after the call was made again"); f != nil {
			return Torn, f.What + tableNames(f)
		}
		if have := now.stream.read().GetPosition(); have != now.after.positions[now.stream.id] {
			return Torn, "the position is wrong after the call was made again: " + lsnText(have)
		}
	}
	return side, ""
}

func (t *Trial) side(now *scene) (CrashSide, string) {
	s := now.stream
	rowsBefore := t.compare(now.before, "") == nil
	rowsAfter := t.compare(now.after, "") == nil
	pos, state := uint64(0), ""
	if s.sinkOwned() {
		pos = s.read().GetPosition()
	}
	if now.state != nil {
		state = now.state()
	}
	posBefore, posAfter := now.before.positions[s.id], now.after.positions[s.id]
	if !s.sinkOwned() {
		posBefore, posAfter = 0, 0
	}
	switch {
	case rowsAfter && pos == posAfter && state == now.stateAfter:
		return After, ""
	case rowsBefore && pos == posBefore && state == now.stateBefore:
		return Before, ""
	}
	said := func(before, after bool) string {
		switch {
		case before && after:
			return "the same before and after"
		case before:
			return "before"
		case after:
			return "after"
		}
		return "neither before nor after"
	}
	detail := "rows are " + said(rowsBefore, rowsAfter)
	if s.sinkOwned() {
		detail += ", the checkpoint is " + said(pos == posBefore, pos == posAfter)
	}
	if now.state != nil {
		detail += ", the token is " + said(state == now.stateBefore, state == now.stateAfter)
	}
	return Torn, detail
}

func tableNames(f *Failure) string {
	var names []string
	for _, d := range f.Tables {
		names = append(names, d.Table)
	}
	return " " + strings.Join(names, " ")
}
