package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// Test runs the suite from a sink's own tests, each case as a subtest. The probe and the
// rest are in options; its Target is target. A Broken case fails, and so does the run
// where nothing could be tried.
//
//	func TestConformance(t *testing.T) {
//		target := conformance.NewServer("unix:"+socket, serve)
//		defer target.Stop(t.Context())
//		conformance.Test(t, target, conformance.Options{Probe: probe})
//	}
func Test(t *testing.T, target Target, options ...Options) *Summary {
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
		t.Run(r.ID, func(t *testing.T) { report(t, &r) })
	}
	sum, err := Run(t.Context(), o)
	if err != nil {
		t.Fatalf("conformance: %v", err)
	}
	return sum
}

// report makes a subtest of a result.
func report(t *testing.T, r *Result) {
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

// Server is a target inside this process: a sink in Go that is served on a socket here.
// It can be started and stopped, and not killed: what a kill leaves behind needs a process
// of its own.
type Server struct {
	serve   func(ctx context.Context, address string) error
	address string
	cancel  context.CancelFunc
	done    chan error
}

// NewServer makes a target of a function that serves a sink at an address until its
// context ends.
func NewServer(address string, serve func(ctx context.Context, address string) error) *Server {
	return &Server{serve: serve, address: address}
}

// Address is where it serves.
func (s *Server) Address() string { return s.address }

// Mode is that of a report.
func (s *Server) Mode() string { return "in-process" }

// Lifecycle reports that it cannot be killed.
func (s *Server) Lifecycle() bool { return false }

// Output is empty.
func (s *Server) Output() string { return "" }

// Start serves, or does nothing.
func (s *Server) Start(ctx context.Context) error {
	if s.done != nil {
		return nil
	}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.done = make(chan error, 1)
	go func() { s.done <- s.serve(ctx, s.address) }()
	return nil
}

// Kill is not possible.
func (s *Server) Kill(context.Context) error { return ErrNoLifecycle }

// Stop ends the serving.
func (s *Server) Stop(ctx context.Context) error {
	if s.done == nil {
		return nil
	}
	s.cancel()
	select {
	case err := <-s.done:
		s.done = nil
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
