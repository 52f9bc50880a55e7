package pgtest

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Option changes what Main does.
type Option func(*mainOptions)

type mainOptions struct {
	leaks   bool
	ignored []goleak.Option
	ends    []func()
}

// AtEnd runs once the shared servers are closed.
func AtEnd(end func()) Option {
	return func(o *mainOptions) { o.ends = append(o.ends, end) }
}

// NoLeaks makes Main fail when goroutines are left after all tests.
func NoLeaks(ignored ...goleak.Option) Option {
	return func(o *mainOptions) { o.leaks, o.ignored = true, append(o.ignored, ignored...) }
}

// Main is for TestMain: it runs the tests, closes the shared servers, looks
// for leaked goroutines when asked, and exits.
func Main(m *testing.M, opts ...Option) {
	var o mainOptions
	for _, opt := range opts {
		opt(&o)
	}
	code := m.Run()
	if err := errors.Join(shared.close(), spare.close()); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: closing the shared servers:", err)
		code = max(code, 1)
	}
	for _, end := range o.ends {
		end()
	}
	if o.leaks && code == 0 {
		if err := goleak.Find(o.ignored...); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest: goroutines left:", err)
			code = 1
		}
	}
	os.Exit(code)
}
