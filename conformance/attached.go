package conformance

import "context"

// attached is a sink that somebody else runs.
type attached string

// NewAttached makes a target of an address. It cannot be started or killed, so the cases
// that need that are skipped.
func NewAttached(address string) Target { return attached(address) }

// Address is what NewAttached was given.
func (a attached) Address() string { return string(a) }

// Mode is that of a report.
func (attached) Mode() string { return "attach" }

// Start is not possible.
func (attached) Start(context.Context) error { return ErrNoLifecycle }

// Kill is not possible.
func (attached) Kill(context.Context) error { return ErrNoLifecycle }

// Stop is not possible.
func (attached) Stop(context.Context) error { return ErrNoLifecycle }

// Output is unknown.
func (attached) Output() string { return "" }
