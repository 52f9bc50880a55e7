package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// Run tries every selected case and gives the summary. The error is a fault of use or of
// the harness (exit code 2); what the sink did wrong is in the summary.
func Run(ctx context.Context, o Options) (*Summary, error) {
	if o.Target == nil {
		return nil, errors.New("no target")
	}
	s := newSession(o)
	selected, err := s.selected()
	if err != nil {
		return nil, &UseError{err}
	}
	started := time.Now()
	if err := s.begin(ctx); err != nil {
		return nil, fmt.Errorf("%w%s", err, s.lastWords())
	}
	if o.Probe != nil {
		if err := s.checkProbe(ctx); err != nil {
			return nil, fmt.Errorf("the probe cannot be trusted: %w", err)
		}
	}
	if !s.log() {
		s.run(ctx, &keylessCase, &Result{})
	}
	sum := &Summary{Sink: s.info(), Started: started, Seed: s.seed, Mode: mode(o.Target)}
	for i := range selected {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r := s.try(ctx, &selected[i])
		sum.Results = append(sum.Results, r)
		if o.Observe != nil {
			o.Observe(r)
		}
	}
	sum.Duration = int64(time.Since(started))
	s.conclude(sum)
	return sum, nil
}

// UseError says that the options are wrong: the sink was not even asked.
type UseError struct{ err error }

func (e *UseError) Error() string { return e.err.Error() }

func (e *UseError) Unwrap() error { return e.err }

// lastWords is what the sink printed, where it did not even start.
func (s *session) lastWords() string {
	out := strings.TrimSpace(s.o.Target.Output())
	if out == "" {
		return ""
	}
	if len(out) > 2000 {
		out = "..." + out[len(out)-2000:]
	}
	return "; the sink printed:\n" + paragraph(out, len(out))
}

func mode(t Target) string {
	if m, ok := t.(interface{ Mode() string }); ok {
		return m.Mode()
	}
	return "attach"
}

// selected are the cases that the options name.
func (s *session) selected() ([]Case, error) {
	var out []Case
	for _, c := range Cases() {
		picked := len(s.o.Run) == 0
		for _, p := range s.o.Run {
			picked = picked || match(p, &c)
		}
		if picked && (len(s.o.Profiles) == 0 || slices.Contains(s.o.Profiles, c.Profile)) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no case has such an id or profile")
	}
	for _, skip := range s.o.Skip {
		if skip.Reason == "" {
			return nil, fmt.Errorf("a skip needs a reason: %s", skip.Pattern)
		}
	}
	return out, nil
}

// caseSeed is the seed of one case: the run's, and the id's own.
func (s *session) caseSeed(c *Case) uint64 {
	h := s.seed
	for _, b := range []byte(c.ID) {
		h = h*1099511628211 + uint64(b)
	}
	return h
}

// try runs one case to its result.
func (s *session) try(ctx context.Context, c *Case) Result {
	r := Result{ID: c.ID, Level: c.Level, Profile: c.Profile, Title: c.Title, Seed: s.seed, Reproduce: s.reproduce(c)}
	start, mark := time.Now(), s.printed()
	if kind, why := s.why(c); kind != "" {
		r.Verdict, r.Skip, r.Why = Skip, kind, why
		return r
	}
	if s.dead != nil {
		r.Verdict = Fail
		r.Failure = &Failure{What: "not tried: " + s.dead.Error()}
		return r
	}
	r.Verdict = s.run(ctx, c, &r)
	if r.Verdict == Fail && c.Level == Should && !s.o.Strict {
		r.Verdict = Warn
	}
	if r.Verdict == Fail || r.Verdict == Broken || r.Verdict == Warn {
		r.Output = s.outputSince(mark)
	}
	s.known(&r)
	r.clean()
	r.Duration = time.Since(start)
	s.tire(&r)
	return r
}

// speaker is a target whose output can be told apart by case.
type speaker interface {
	Printed() int64
	OutputSince(mark int64) string
}

func (s *session) printed() int64 {
	if t, ok := s.o.Target.(speaker); ok {
		return t.Printed()
	}
	return 0
}

func (s *session) outputSince(mark int64) string {
	if t, ok := s.o.Target.(speaker); ok {
		return t.OutputSince(mark)
	}
	return s.o.Target.Output()
}

// hungMax is how many cases in a row may wait in vain. Each of a hundred would otherwise wait
// for a sink that hangs.
const hungMax = 3

// tire gives a sink up that answers GetCapabilities and hangs in everything else.
func (s *session) tire(r *Result) {
	if r.Verdict == Pass || r.Duration < s.patience() {
		s.hung = 0
		return
	}
	if s.hung++; s.hung == hungMax {
		s.dead = fmt.Errorf("%d cases in a row waited %s in vain for an answer", hungMax, s.patience())
	}
}

// run runs a case and sees to it that the sink lives for the next.
func (s *session) run(ctx context.Context, c *Case, r *Result) (v Verdict) {
	seed := s.caseSeed(c)
	t := &Trial{
		ctx: ctx, session: s, of: c, began: time.Now(), result: r, model: newModel(),
		shapes: map[tableName]*shape{}, rng: rand.New(rand.NewPCG(seed, seed>>1)),
	}
	// A schema that no earlier run used: the store may be an old one.
	t.schema = fmt.Sprintf("c_%s_%x", strings.ToLower(strings.ReplaceAll(c.ID, "-", "_")), uint32(time.Now().UnixNano()))
	s.oids += 100
	defer func() {
		for _, l := range t.links {
			l.close()
		}
		switch p := recover().(type) {
		case nil:
		case stopped:
			v = p.verdict
		default:
			r.Why = fmt.Sprintf("a fault of the suite: %v\n%s", p, debug.Stack())
			r.Fault, v = true, Broken
		}
		if s.o.Probe != nil && v == Pass {
			if err := s.o.Probe.Reset(ctx, t.schema); err != nil {
				r.Notes = append(r.Notes, "probe: reset: "+err.Error())
			}
		}
	}()
	t.link = t.open()
	if !s.alive(ctx, t) {
		r.Failure = &Failure{What: s.dead.Error()}
		return Fail
	}
	c.Run(t)
	if _, err := s.up(ctx, t.link); err != nil {
		r.Failure = &Failure{What: "the sink was gone at the end of the case: " + err.Error()}
		return Fail
	}
	return Pass
}

// alive starts the sink if a case before left it dead.
func (s *session) alive(ctx context.Context, t *Trial) bool {
	if s.lifecycle() {
		if err := s.o.Target.Start(ctx); err != nil {
			s.dead = fmt.Errorf("the sink did not start again: %w", err)
			return false
		}
	}
	caps, err := s.up(ctx, t.link)
	if err != nil {
		s.dead = fmt.Errorf("the sink did not come back: %w", err)
		return false
	}
	s.caps = caps
	return true
}

// known turns announced failures around.
func (s *session) known(r *Result) {
	for _, k := range s.o.Known {
		if !strings.EqualFold(k.ID, r.ID) || r.Verdict == Skip {
			continue
		}
		switch {
		case !k.Expires.IsZero() && time.Now().After(k.Expires):
			r.Failure = &Failure{What: "announced as failing until " + k.Expires.Format(time.DateOnly) + ", which is over"}
			r.Verdict = Fail
		case r.Verdict == Fail || r.Verdict == Warn:
			r.Known = true
			r.Notes = append(r.Notes, "announced: "+k.Reason)
		case r.Verdict == Pass:
			r.Verdict = Fail
			r.Failure = &Failure{What: "announced as failing, and passes: take it off the list"}
		}
	}
}

// reproduce is the command that runs just this.
func (s *session) reproduce(c *Case) string {
	parts := []string{s.o.Command, "run", "--run", c.ID, "--seed", fmt.Sprint(s.seed), s.o.CommandTail}
	if s.o.Command == "" {
		parts[0] = "replicant-sidecar conformance"
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// info is what the sink says of itself.
func (s *session) info() SinkInfo {
	i := SinkInfo{
		Name: Printable(s.caps.GetSinkName(), nameMax), Version: Printable(s.caps.GetSinkVersion(), nameMax), ProtocolMinor: s.caps.GetProtocolMinor(),
		Kind: strings.ToLower(strings.TrimPrefix(s.caps.GetSinkKind().String(), "SINK_KIND_")),
	}
	for _, f := range fewOf(s.caps.GetFencing()) {
		i.Fencing = append(i.Fencing, strings.TrimPrefix(f.String(), "FENCING_"))
	}
	for _, n := range capabilityOrder() {
		if s.has(n) {
			i.Capabilities = append(i.Capabilities, capabilityName(n))
		} else {
			i.Unsupported = append(i.Unsupported, capabilityName(n))
		}
	}
	return i
}

// fewMax is how many numbers of a sink's list are told that we may not know.
const fewMax = 10

// fewOf are the first of a list, each once: a sink may send it a thousand times.
func fewOf[E cmp.Ordered](list []E) []E {
	sorted := slices.Compact(slices.Sorted(slices.Values(list)))
	return sorted[:min(fewMax, len(sorted))]
}

// capabilityOrder are the capabilities that we know, in their order.
func capabilityOrder() []sinkv1.Capability {
	var all []sinkv1.Capability
	for n := range sinkv1.Capability_name {
		if n != 0 {
			all = append(all, sinkv1.Capability(n))
		}
	}
	slices.Sort(all)
	return all
}
