package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

// hookMax is how long a hook may take.
const hookMax = 2 * time.Minute

// HookOptions says how a sink is started and killed that is not our process: in a
// container, say. All are required.
type HookOptions struct {
	Address string
	// Start returns when the sink is there; it need not answer yet. It is also called
	// first, for a sink that runs already.
	Start []string
	// Kill ends it as SIGKILL does, Stop as SIGTERM does; each returns when it is gone.
	Kill, Stop []string
}

type hooked struct {
	options HookOptions
	output  output

	mu sync.Mutex
	up bool
}

// NewHooked makes a target of an address and three commands.
func NewHooked(o HookOptions) (Target, error) {
	if o.Address == "" || len(o.Start) == 0 || len(o.Kill) == 0 || len(o.Stop) == 0 {
		return nil, errors.New("a hooked sink needs an address, and commands that start, kill and stop it")
	}
	return &hooked{options: o}, nil
}

// Address is where the hooks make it listen.
func (h *hooked) Address() string { return h.options.Address }

// Mode is that of a report.
func (*hooked) Mode() string { return "hooked" }

// Lifecycle reports that it can be killed and started.
func (*hooked) Lifecycle() bool { return true }

// Output is what the hooks printed; the sink's own is not seen.
func (h *hooked) Output() string { return h.output.String() }

// Start runs the hook, unless the sink runs.
func (h *hooked) Start(ctx context.Context) error { return h.to(ctx, true, "start", h.options.Start) }

// Kill runs the hook, unless the sink is gone.
func (h *hooked) Kill(ctx context.Context) error { return h.to(ctx, false, "kill", h.options.Kill) }

// Stop runs the hook, unless the sink is gone.
func (h *hooked) Stop(ctx context.Context) error { return h.to(ctx, false, "stop", h.options.Stop) }

func (h *hooked) to(ctx context.Context, up bool, name string, args []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.up == up {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hookMax)
	defer cancel()
	if err := runBounded(ctx, &h.output, args); err != nil {
		return fmt.Errorf("the %s hook: %w", name, err)
	}
	h.up = up
	return nil
}

// runBounded runs a command in a group of its own, which the end of ctx kills.
func runBounded(ctx context.Context, to *output, args []string) error {
	p, err := PlainLauncher().Launch(ctx, Command{Args: args, Env: os.Environ(), Output: to})
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		return errors.Join(ctx.Err(), p.Kill())
	}
	if ended := p.Ended(); ended != "exit status 0" {
		return errors.New(ended)
	}
	return nil
}

// lookPath says plainly that a command is not there.
func lookPath(name string) error {
	_, err := exec.LookPath(name)
	return err
}
