package conformance

import (
	"context"
	"errors"
	"fmt"
)

// CheckProbe runs only the checks on the author's probe, which Run makes first.
func CheckProbe(ctx context.Context, o Options) error {
	if o.Probe == nil {
		return errors.New("no probe")
	}
	s := newSession(o)
	if err := s.begin(ctx); err != nil {
		return err
	}
	return s.checkProbe(ctx)
}

// probeCase is not listed: what fails here is the probe.
var probeCase = Case{ID: "PRB-001", Level: Must, Title: "the probe tells the truth", Run: tryProbe}

// checkProbe tries the probe with rows that we know. Its failure is the harness's, unless
// the sink itself refuses the rows.
func (s *session) checkProbe(ctx context.Context) error {
	r := Result{}
	v := s.run(ctx, &probeCase, &r)
	switch {
	case v == Pass:
		return nil
	case r.Failure != nil:
		text := r.Failure.What
		for _, d := range r.Failure.Tables {
			text += fmt.Sprintf("; %s.%s: %d rows expected, %d found", d.Schema, d.Table, d.Expected, d.Found)
		}
		return errors.New(text)
	}
	return errors.New(r.Why)
}

// tryProbe: an unknown table is missing or empty; what was written is seen, a second
// stream's rows too; NULL is not the empty text; it works while the sink is stopped.
func tryProbe(t *Trial) {
	if t.session.log() {
		tryLogProbe(t)
		return
	}
	p := t.session.o.Probe
	have, err := p.ReadTable(t.ctx, t.schema, "never_made")
	t.need(err)
	if !have.Missing && len(have.Rows) > 0 {
		t.failed("the probe shows %d rows of a table that was never made", len(have.Rows))
	}
	table, one := t.basic(), t.stream()
	one.deliver(one.tx(insert(table, 1, "a", "b"), insert(table, 2, "c", "NULL")))
	t.shows("as the probe reads them")
	two := t.unclaimed("")
	two.epoch, two.wal = 5, one.wal+4096 // whatever else is wrong with the sink is judged later
	two.claim()
	two.deliver(two.tx(insert(table, 3, "b", "c")))
	t.shows("as the probe reads what another stream wrote")
	if t.session.lifecycle() && p.WorksStopped() {
		t.up()
		t.kill()
		t.shows("as the probe reads them while the sink is stopped")
		t.restart()
	}
}

// shows compares rows alone.
func (t *Trial) shows(when string) {
	if f := t.compare(t.model, when); f != nil {
		t.fail(f)
	}
}

func tryLogProbe(t *Trial) {
	table := t.basic()
	s := t.stream()
	t.verify("as the probe reads an empty log")
	s.deliver(s.tx(insert(table, 1, "a", null), insert(table, 2, "", "NULL")))
	t.verify("as the probe reads it")
}
