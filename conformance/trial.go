package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// stepsMax is how many steps a result keeps.
const stepsMax = 200

// Trial is one run of one case: its streams, its schema, the sink, and what was seen. Its
// methods that judge end the case when they find a fault, so they are called from the
// case's own goroutine alone.
type Trial struct {
	ctx     context.Context
	session *session
	of      *Case
	rng     *rand.Rand
	began   time.Time

	schema  string
	model   *model
	streams []*stream
	shapes  map[tableName]*shape
	link    *link
	links   []*link
	oid     uint32

	mu     sync.Mutex
	result *Result
}

// stopped ends a case from within.
type stopped struct{ verdict Verdict }

// failed ends the case: the sink broke the contract.
func (t *Trial) failed(what string, args ...any) {
	t.fail(&Failure{What: fmt.Sprintf(what, args...)})
}

// differs ends the case with what was expected and what was there.
func (t *Trial) differs(what, expected, found string) {
	t.fail(&Failure{What: what, Expected: expected, Found: found})
}

func (t *Trial) fail(f *Failure) {
	f.Rules, f.Cause = t.of.Rules, t.of.Cause
	t.result.Failure = f
	panic(stopped{Fail})
}

// broken ends the case: the suite could not find out.
func (t *Trial) broken(err error) {
	t.result.Why = err.Error()
	panic(stopped{Broken})
}

// need breaks the case unless err is nil.
func (t *Trial) need(err error) {
	if err != nil {
		t.broken(err)
	}
}

// impossible ends the case as skipped.
func (t *Trial) impossible(why string) {
	t.result.Skip, t.result.Why = NotPossible, why
	panic(stopped{Skip})
}

// inapplicable ends the case as skipped: the sink does not claim what it is about.
func (t *Trial) inapplicable(why string) {
	t.result.Skip, t.result.Why = NotApplicable, why
	panic(stopped{Skip})
}

// note adds a remark to the result.
func (t *Trial) note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Notes = append(t.result.Notes, fmt.Sprintf(format, args...))
}

// did adds a step that is no call.
func (t *Trial) did(what string) {
	t.step(Step{At: time.Since(t.began), What: what})
}

func (t *Trial) step(s Step) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.result.Steps); n > 0 && s.Code == codes.Unavailable.String() && t.result.Steps[n-1].What == s.What && t.result.Steps[n-1].Code == s.Code {
		return // one of many while a sink starts
	}
	if len(t.result.Steps) >= stepsMax {
		t.result.Steps = slices.Delete(t.result.Steps, 0, 1)
	}
	t.result.Steps = append(t.result.Steps, s)
}

// seen takes note of a call's end.
func (t *Trial) seen(a *answer) {
	s := Step{
		At: a.Start.Sub(t.began), Took: a.Took, What: a.Call, Code: a.Code.String(), Reason: a.Reason,
	}
	if a.Position != 0 {
		s.Position = lsnText(a.Position)
	}
	t.step(s)
	t.session.witness.see(t.of.ID, a)
}

// open is a new connection to the sink, closed with the trial.
func (t *Trial) open() *link {
	l, err := t.session.dial(t.seen)
	t.need(err)
	t.links = append(t.links, l)
	return l
}

// up makes sure that the sink runs and answers, and gives its capabilities.
func (t *Trial) up() *sinkv1.GetCapabilitiesResponse {
	caps, err := t.session.up(t.ctx, t.link)
	if err != nil {
		t.fail(&Failure{What: "the sink does not answer: " + err.Error()})
	}
	t.session.caps = caps
	for _, s := range t.streams {
		s.instance = caps.GetInstanceId()
	}
	return caps
}

// kill ends the sink as SIGKILL does.
func (t *Trial) kill() {
	t.need(t.session.o.Target.Kill(t.ctx))
	t.did("kill")
}

// restart starts a killed sink and waits until it answers.
func (t *Trial) restart() {
	t.need(t.session.o.Target.Start(t.ctx))
	t.did("start")
	t.link.close()
	t.link = t.open()
	t.up()
}

// bounce kills and restarts.
func (t *Trial) bounce() {
	t.kill()
	t.restart()
}

// has reports whether the sink advertises a capability.
func (t *Trial) has(c sinkv1.Capability) bool { return t.session.has(c) }

// canary is a text that no log, status or metric may repeat.
func (t *Trial) canary(words string) string { return t.session.canary + words }

// table makes a table of this trial's schema; the words are those of column.
func (t *Trial) table(name string, words ...string) *shape {
	return t.shaped(t.schema, name, sinkv1.ReplicaIdentity_REPLICA_IDENTITY_DEFAULT, words...)
}

// shaped makes a table, or another shape of it where the name was used before.
func (t *Trial) shaped(schema, name string, identity sinkv1.ReplicaIdentity, words ...string) *shape {
	full := tableName{schema, name}
	oid := uint32(0)
	if known := t.shapes[full]; known != nil {
		oid = known.relation.GetRelationOid()
	} else {
		t.oid++
		oid = t.session.oids + t.oid
	}
	s := newShape(oid, schema, name, identity, t.keyed(words)...)
	t.shapes[full] = s
	if t.model.tables[full] == nil { // also what a refused unit would have made is looked at
		t.model.table(s)
	}
	return s
}

// indexed makes a table whose identity is an index.
func (t *Trial) indexed(name string, words ...string) *shape {
	return t.shaped(t.schema, name, sinkv1.ReplicaIdentity_REPLICA_IDENTITY_INDEX, words...)
}

// basic is the usual table: id int4 key, name text, note text.
func (t *Trial) basic() *shape { return t.table("basic", "id int4 key", "name text", "note text") }

// verify compares all tables of the model, all logs, and the positions of all streams
// with what the sink has.
func (t *Trial) verify(when string) {
	if f := t.compare(t.model, when); f != nil {
		t.fail(f)
	}
	for _, s := range t.streams {
		s.verifyPosition(when)
	}
}

// compare gives the first failure between a model and the store.
func (t *Trial) compare(m *model, when string) *Failure {
	p := t.session.o.Probe
	if p == nil {
		return nil
	}
	f := &Failure{What: "rows differ " + when}
	if t.session.log() {
		for _, s := range t.streams {
			entries, err := p.ReadLog(t.ctx, s.id)
			t.need(err)
			if d := compareLog(m.logs[s.id], entries); d != "" {
				f.What = "the log differs " + when + ": " + d
				return f
			}
		}
		return nil
	}
	for _, name := range sortedNames(m.tables) {
		have, err := p.ReadTable(t.ctx, name.schema, name.table)
		if err != nil {
			t.broken(fmt.Errorf("probe: %w", err))
		}
		if have.Missing {
			have = Table{}
		}
		if d := compareTable(name, t.keyOf(name), m.tables[name], have, t.session.o.ShowValues); d != nil {
			f.Tables = append(f.Tables, *d)
		}
	}
	if len(f.Tables) == 0 {
		return nil
	}
	return f
}

func (t *Trial) keyOf(name tableName) []string {
	var key []string
	if s := t.shapes[name]; s != nil {
		for _, i := range s.key {
			key = append(key, s.columns()[i])
		}
	}
	return key
}

// errMissing marks a case whose stream could not be claimed.
var errMissing = errors.New("the sink offers no way to write")
