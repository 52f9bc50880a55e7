package conformance

import (
	"context"
	"fmt"
	"strings"
)

// T is what Test needs of a *testing.T. It is not named, so that no program that runs the
// suite has Go's test code in it.
type T[S any] interface {
	says
	Run(name string, f func(S)) bool
	Context() context.Context
}

// says is how a test speaks.
type says interface {
	Helper()
	Skipf(format string, args ...any)
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Test runs the suite from a sink's own tests, each case as a subtest. The probe and the
// rest are in options; its Target is target. A Broken case fails, and so does the run
// where nothing could be tried.
//
//	func TestConformance(t *testing.T) {
//		target := conformance.NewServer("unix:"+socket, serve)
//		defer target.Stop(t.Context())
//		conformance.Test(t, target, conformance.Options{Probe: probe})
//	}
func Test[S T[S]](t S, target Target, options ...Options) *Summary {
	t.Helper()
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	o.Target = target
	observe := o.Observe
	o.Observe = func(r Result) {
		if observe != nil {
			observe(r)
		}
		t.Run(r.ID, func(t S) { report(t, &r) })
	}
	sum, err := Run(t.Context(), o)
	if err != nil {
		t.Fatalf("conformance: %v", err)
	}
	return sum
}

// report makes a subtest of a result.
func report(t says, r *Result) {
	t.Helper()
	switch r.Verdict {
	case Pass:
	case Skip:
		t.Skipf("%s: %s", r.Skip, r.Why)
	case Warn:
		t.Logf("warning: %s: %s", r.Title, r.Failure.text())
	default:
		if r.Known {
			t.Skipf("fails as announced: %s", r.Failure.text())
		}
		t.Errorf("%s\n%s%s", r.Title, r.Failure.text(), r.Why)
	}
}

// text is a failure in lines.
func (f *Failure) text() string {
	if f == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", f.What)
	if f.Expected != "" || f.Found != "" {
		fmt.Fprintf(&b, "  expected %s\n  found    %s\n", f.Expected, f.Found)
	}
	for _, d := range f.Tables {
		fmt.Fprintf(&b, "  %s.%s: %d rows expected, %d found; %d missing, %d too many, %d others\n",
			d.Schema, d.Table, d.Expected, d.Found, d.Missing, d.Surplus, d.Changed)
		for _, r := range d.Rows {
			fmt.Fprintf(&b, "    %s\n      expected %s\n      found    %s\n", r.Key, r.Expected, r.Found)
		}
	}
	fmt.Fprintf(&b, "  breaks %s; usually: %s\n", strings.Join(f.Rules, ", "), f.Cause)
	return b.String()
}
