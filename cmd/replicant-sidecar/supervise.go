package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/cmd/replicant-sidecar/internal/logging"
	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// drainSignals are the signals that ask for an end. A hangup counts unless the program
// was told to ignore it (nohup).
func drainSignals() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	return signals, func() { signal.Stop(signals) }
}

// surviveBrokenOutput keeps a reader of our output that went away from ending the run
// without a drain.
func surviveBrokenOutput() func() {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}

// engine is what the supervising loop needs of the pipeline.
type engine interface {
	Run(ctx context.Context) error
	Drain()
	// GuardSlot watches the slot of an engine that halted, until ctx is done.
	GuardSlot(ctx context.Context)
}

// supervise runs the engine until it ends or is told to, and stops the child after it.
func (s *sidecar) supervise(signals <-chan os.Signal) error {
	err := s.watch(s.engine, signals)
	s.stopChild(signals)
	return err
}

// echo is how long a second signal counts as the first one: who ends a process and then its
// group, as timeout(1) does, asks once.
const echo = 50 * time.Millisecond

// watch is the supervising loop. What happens first decides how the program ends.
func (s *sidecar) watch(engine engine, signals <-chan os.Signal) error {
	ctx, abort := context.WithCancel(context.Background())
	var guarding sync.WaitGroup
	defer func() { abort(); guarding.Wait() }()
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	childEnds := s.childEnds()
	var childFirst, parked bool
	var result error
	var first time.Time
	for asked := 0; ; {
		select {
		case <-s.pings:
		case sig := <-signals:
			if asked == 1 && time.Since(first) < echo {
				continue
			}
			asked++
			switch {
			case parked:
				return result
			case asked == 1:
				first = time.Now()
				s.log.Info("draining", logging.KeySignal, sig.String())
				engine.Drain()
			default:
				s.log.Warn("aborting", logging.KeySignal, sig.String())
				abort()
			}
		case <-childEnds:
			childEnds = nil
			s.log.Warn("the sink's command ended", logging.KeyExit, s.child.Code())
			if asked == 0 && !parked {
				// Nothing can be drained into a sink that is gone.
				childFirst = true
				abort()
			}
		case result = <-ended:
			halt, halted := core.AsHalt(result)
			switch {
			case childFirst:
				return &exitError{s.child.Code()}
			case halted && asked == 0 && s.config.OnHalt == "park":
				parked = true
				guarding.Go(func() { engine.GuardSlot(ctx) })
				s.log.Error("halted and parked: not ready until a signal ends it", logging.KeyCode, string(halt.Code), logging.KeyReason, halt.Error())
				continue
			}
			return result
		}
	}
}

func (s *sidecar) childEnds() <-chan struct{} {
	if s.child == nil {
		return nil
	}
	return s.child.Done()
}

// stopChild ends the child and what it left behind; a signal cuts its grace short.
func (s *sidecar) stopChild(signals <-chan os.Signal) {
	if s.child == nil {
		return
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.child.Stop()
	}()
	for {
		select {
		case <-stopped:
			return
		case <-s.pings:
		case <-signals:
			s.child.Kill()
		}
	}
}
