package sink

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// ListenVariable is the environment variable that says where to serve. A sidecar that
// starts its sink sets it.
const ListenVariable = "REPLICANT_SINK_LISTEN"

// ErrAborted says that a second signal cut calls in progress off.
var ErrAborted = errors.New("stopped at once by a second signal")

// Main is a whole main function: it serves the sink where REPLICANT_SINK_LISTEN says
// until SIGTERM or SIGINT, stops gracefully, and exits. A second signal aborts. Logs go
// to stderr; nothing is written to stdout.
func Main(s core.Sink, list ...Option) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	list = append([]Option{WithLogger(logger)}, list...)
	if err := Run(s, list...); err != nil {
		logger.Error("sink ended", slog.String("error", err.Error()))
		os.Exit(1)
	}
}

// Run is Main without the exit.
func Run(s core.Sink, list ...Option) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	return run(signals, os.Getenv(ListenVariable), s, list)
}

func run(signals <-chan os.Signal, address string, s core.Sink, list []Option) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, address, s, list...) }()
	select {
	case err := <-served:
		return err
	case <-signals:
		cancel()
	}
	select {
	case err := <-served:
		return err
	case <-signals:
		return ErrAborted
	}
}
