package conformance

import "context"

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
