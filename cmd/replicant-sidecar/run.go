package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/replicant-sidecar/replicant-sidecar/cmd/replicant-sidecar/internal/admin"
	"github.com/replicant-sidecar/replicant-sidecar/cmd/replicant-sidecar/internal/bars"
	"github.com/replicant-sidecar/replicant-sidecar/cmd/replicant-sidecar/internal/child"
	"github.com/replicant-sidecar/replicant-sidecar/cmd/replicant-sidecar/internal/logging"
	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/config"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/remotesink"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run [flags] [-- command args...]", GroupID: groupStart,
		Short: `Run the sidecar; add "-- command" to start your sink with it`,
		Long: `Streams changes from the slot to the sink until SIGTERM or Ctrl-C. The first signal drains:
the unit in flight is waited for and its position confirmed. A second one aborts. Nothing is
lost by either.

With "-- command" the sink is started beside the sidecar. It is told where to listen by
REPLICANT_SINK_LISTEN (unix:/path or host:port), its output is prefixed, and it is stopped after
the drain. It is not restarted: if it ends by itself, so does the sidecar, with its exit code.`,
		Example: `  replicant-sidecar run --source "$DATABASE_URL" --publications shop -- python sink.py
  replicant-sidecar run --config replicant.yaml --sink unix:/run/replicant/sink.sock`,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); len(args) > 0 && dash != 0 {
				return &usageError{`run takes no arguments; to start a sink with it put "--" before its command`}
			}
			return nil
		},
		RunE: runs(runSidecar),
	}
	addConfigFlags(cmd, nil)
	return cmd
}

func runSidecar(cmd *cobra.Command, command []string) error {
	required := []string{"source", "sink.address"}
	if len(command) > 0 {
		required = required[:1]
	}
	loaded, err := load(cmd, required...)
	tellNotes(cmd.ErrOrStderr(), loaded)
	if err != nil {
		return err
	}
	// One writer at a time: our lines and the child's share these.
	stdout, stderr := shared(cmd.OutOrStdout()), shared(cmd.ErrOrStderr())
	var screen *bars.Screen
	if logging.IsTerminal(stderr) && loaded.Log.Format != logging.FormatJSON {
		screen = bars.NewScreen(stderr)
		stderr = screen.Through(stderr)
		if logging.IsTerminal(stdout) {
			stdout = screen.Through(stdout)
		}
	}
	log, err := logging.New(stderr, loaded.Log.Format, loaded.Log.Level)
	if err != nil {
		return err
	}
	signals, release := drainSignals()
	defer release()
	defer surviveBrokenOutput()()
	s := &sidecar{config: &loaded.Config, command: command, stdout: stdout, stderr: stderr, log: log}
	defer s.close()
	err = s.build()
	if err == nil {
		defer s.drawOn(screen)()
		err = s.supervise(signals)
	}
	return s.ended(err)
}

// drawOn shows copies as bars, where there is a terminal, until the function that it
// returns is called.
func (s *sidecar) drawOn(screen *bars.Screen) func() {
	if screen == nil {
		return func() {}
	}
	done := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() { screen.Follow(s.engine.Status, done) })
	return func() { close(done); drawing.Wait() }
}

// sidecar is one run: what was started, in the order in which it is stopped again.
type sidecar struct {
	config         *config.Config
	command        []string
	stdout, stderr io.Writer
	log            *slog.Logger

	sink   *remotesink.Sink
	engine *pipeline.Pipeline
	admin  *admin.Server
	child  *child.Child
	pings  chan struct{}
	closes []func()
}

func (s *sidecar) close() {
	for i := len(s.closes) - 1; i >= 0; i-- {
		s.closes[i]()
	}
}

// build makes everything and starts what runs beside the engine. The child comes last:
// whatever else is wrong is found before it is started.
func (s *sidecar) build() error {
	if len(s.command) > 0 && s.config.Sink.Address == "" {
		socket, err := child.NewSocket()
		if err != nil {
			return err
		}
		s.closes = append(s.closes, func() { _ = socket.Close() })
		s.config.Sink.Address = socket.Listen()
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := s.buildEngine(registry); err != nil {
		return err
	}
	if err := s.buildAdmin(registry); err != nil {
		return err
	}
	s.greet()
	return s.startChild()
}

func (s *sidecar) buildEngine(registry *prometheus.Registry) error {
	c := s.config
	sink, err := remotesink.New(remotesink.Options{
		Address: c.Sink.Address, Insecure: c.Sink.Insecure, TokenFile: c.Sink.TokenFile,
		TLSFiles: remotesink.TLSFiles{CA: c.Sink.TLS.CA, Cert: c.Sink.TLS.Cert, Key: c.Sink.TLS.Key},
		Version:  aboutUs().Version, Logger: s.log, Registerer: registry,
	})
	if err != nil {
		return core.NewHalt(core.HaltConfigInvalid, "sink", "%s", err)
	}
	s.sink = sink
	s.closes = append(s.closes, func() { _ = sink.Close() })
	options := engineOptions(c, s.log)
	options.Sink = sink
	store, err := openStore(c, s.log)
	if err != nil {
		return err
	}
	if store != nil {
		options.Store = store
		s.closes = append(s.closes, func() { _ = store.Close() })
	}
	s.engine, err = pipeline.New(options)
	return err
}

func (s *sidecar) buildAdmin(registry *prometheus.Registry) error {
	c := s.config.Admin
	if c.Listen == "" {
		return nil
	}
	s.pings = make(chan struct{})
	server, err := admin.Start(admin.Options{
		Listen: c.Listen, Pprof: c.Pprof, Status: s.engine.Status, Copies: s.engine, Alive: s.alive, Registry: registry,
		ProgressDeadline: durationOf(c.ProgressDeadline), Version: aboutUs().Version, Logger: s.log,
	})
	if err != nil {
		return core.NewHalt(core.HaltConfigInvalid, "admin", "admin.listen %s: %s (another sidecar? choose another port, or none with an empty value)", c.Listen, err)
	}
	s.admin = server
	s.closes = append(s.closes, server.Close)
	if !server.Loopback() {
		s.log.Warn("the admin port has no password and can be reached from other machines", logging.KeyAddress, c.Listen)
	}
	return nil
}

func (s *sidecar) greet() {
	attrs := []any{
		logging.KeyVersion, aboutUs().Version, logging.KeySlot, s.config.Slot, logging.KeyStream, s.config.StreamID,
		logging.KeySource, s.config.Source.String(), logging.KeySink, s.config.Sink.Address,
	}
	if s.admin != nil {
		attrs = append(attrs, "admin", s.admin.URL())
	}
	s.log.Info("replicant-sidecar", attrs...)
}

func (s *sidecar) startChild() error {
	if len(s.command) == 0 {
		return nil
	}
	prefix := "sink | "
	if logging.Colour(os.Stdout) {
		prefix = "\x1b[36msink |\x1b[0m "
	}
	c, err := child.Start(child.Options{
		Args: s.command, Listen: s.config.Sink.Address, Stdout: s.stdout, Stderr: s.stderr, Prefix: prefix,
	})
	if err != nil {
		return &usageError{"the sink's command cannot be started: " + err.Error()}
	}
	s.child = c
	s.log.Info("sink started", logging.KeyPID, c.PID())
	return nil
}

// ended turns the end of a run into what the program reports. In JSON it is one line of
// the log; on a terminal the words of explain follow.
func (s *sidecar) ended(err error) error {
	halt, halted := core.AsHalt(err)
	switch {
	case err == nil:
		s.log.Info("stopped", logging.KeyExit, core.ExitDrained)
	case errors.Is(err, pipeline.ErrCopyInterrupted):
		s.log.Error("stopped before the initial copy was complete; start again with --snapshot-redo, which copies all tables anew",
			logging.KeyExit, core.ExitInternal)
		return &exitError{core.ExitInternal}
	case errors.Is(err, pipeline.ErrAbort):
		s.log.Warn("aborted before the drain was complete; nothing is lost, the next start goes on from the checkpoint")
		return &exitError{core.ExitInternal}
	case errors.Is(err, pipeline.ErrLeftOpen):
		s.log.Error("stopped with a unit left open; nothing is lost, the next start resolves it", logging.KeyReason, err.Error(), logging.KeyExit, core.ExitInternal)
		return &exitError{core.ExitInternal}
	case halted && !s.textual():
		text, _ := core.Explain(halt.Code)
		s.log.Error("halted", logging.KeyCode, string(halt.Code), logging.KeyReason, halt.Error(), "do", text.Do, logging.KeyExit, core.ExitCode(err))
		return &exitError{core.ExitCode(err)}
	}
	return err
}

func (s *sidecar) textual() bool {
	format := s.config.Log.Format
	return format == logging.FormatText || format == logging.FormatAuto && logging.IsTerminal(s.stderr)
}

// alive asks the supervising loop for a sign of life.
func (s *sidecar) alive(ctx context.Context) error {
	select {
	case s.pings <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
