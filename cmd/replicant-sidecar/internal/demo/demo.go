// Package demo shows the whole road in one terminal: a Postgres of its own, the sidecar
// and a sink as processes of their own, a small shop with customers who buy, and at the
// end a comparison of every row by a process that is neither sidecar nor sink. With
// chaos it kills both at random while they work.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
)

// Options of one demonstration.
type Options struct {
	// For is how long the shop is open; 0 means until ctx ends.
	For time.Duration
	// Rate is row changes a second.
	Rate int
	Seed uint64
	// Chaos kills sink and sidecar at random.
	Chaos bool
	// Sink is the command of the sink; nil means the Python sink of the checkout.
	Sink []string
	// ReadSink prints what the sink holds, in the form of examples/python-sink/read.py;
	// nil for a foreign sink means that nobody can read it.
	ReadSink []string
	// Postgres says where to look for the server.
	Postgres pgembed.Options
	// Sidecar is the program to run as the sidecar: this binary.
	Sidecar string
	// Table shows the live table; without it there is a plain line now and then.
	Table bool
	Out   io.Writer // for people
	// SpoilSink is called with the sink's folder after the drain, before the
	// comparison: a test plants a wrong cell with it.
	SpoilSink func(dir string) error
}

// Run holds the whole demonstration and returns what came of it.
func Run(ctx context.Context, o Options) (*Report, error) {
	dir, err := os.MkdirTemp("", "rs-demo-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if o.Sink == nil {
		if o.Sink, o.ReadSink, err = pythonSink(dir); err != nil {
			return nil, err
		}
	}
	fmt.Fprintln(o.Out, "starting Postgres ...")
	pg, err := pgembed.Start(ctx, o.Postgres)
	if err != nil {
		return nil, err
	}
	defer pg.Close()
	shop, err := openShop(ctx, pg, o.Seed)
	if err != nil {
		return nil, err
	}
	defer shop.close()
	stage, err := newStage(o, dir, pg.DSN(database))
	if err != nil {
		return nil, err
	}
	defer stage.close()
	banner(o, pg, stage)
	if err := stage.start(ctx); err != nil {
		return nil, err
	}
	return perform(ctx, o, dir, shop, stage)
}

// perform opens the shop, closes it, waits for the stream to drain and compares.
func perform(ctx context.Context, o Options, dir string, shop *shop, stage *stage) (*Report, error) {
	open, closing := context.WithCancel(ctx)
	if o.For > 0 {
		open, closing = context.WithTimeout(ctx, o.For)
	}
	defer closing()
	report := &Report{Rate: o.Rate, Seed: o.Seed, Chaos: o.Chaos}
	began := time.Now()
	watching := make(chan struct{})
	watched, stopWatching := context.WithCancel(open)
	go func() { defer close(watching); watch(watched, o, shop, stage) }()
	killed := make(chan []Kill, 1)
	go func() { killed <- chaos(open, o, stage) }()
	err := shop.trade(open, o.Rate)
	report.Seconds = time.Since(began).Seconds()
	closing()
	stopWatching()
	<-watching
	report.kills(<-killed)
	if err != nil {
		return nil, fmt.Errorf("the shop's own writes failed: %w", err)
	}
	return report, settle(context.WithoutCancel(ctx), o, dir, shop, stage, report)
}

// drainMax bounds the wait for the last row to arrive.
const drainMax = 2 * time.Minute

func settle(ctx context.Context, o Options, dir string, shop *shop, stage *stage, report *Report) error {
	ctx, cancel := context.WithTimeout(ctx, drainMax)
	defer cancel()
	fmt.Fprintln(o.Out, "shop closed; waiting for the last row ...")
	last, err := shop.lastCommit(ctx)
	if err != nil {
		return err
	}
	drained, err := stage.drained(ctx, last)
	report.Lag.DrainSeconds = drained.Seconds()
	if err != nil {
		report.Verdict, report.Why = VerdictDifferent, err.Error()
		return nil
	}
	report.Lag.Bytes = stage.lagBytes
	report.count(shop, stage)
	stage.stop()
	if o.SpoilSink != nil {
		if err := o.SpoilSink(dir); err != nil {
			return err
		}
	}
	return report.compare(ctx, o, shop)
}

// pythonSink finds the example sink of the checkout this runs in.
func pythonSink(dir string) (run, read []string, err error) {
	home, err := exampleDir()
	if err != nil {
		return nil, nil, err
	}
	python := filepath.Join(home, ".venv", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		return nil, nil, errors.New("the Python sink is not set up: run `make demo`, or examples/python-sink/setup.sh, or name a sink after --")
	}
	return []string{python, filepath.Join(home, "sink.py")},
		[]string{python, filepath.Join(home, "read.py"), filepath.Join(dir, sinkFile)}, nil
}

// sinkFile is where the example sink stores its rows, below the demo's folder.
const sinkFile = "sink.db"

func exampleDir() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		home := filepath.Join(at, "examples", "python-sink")
		if _, err := os.Stat(filepath.Join(home, "sink.py")); err == nil {
			return home, nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", errors.New("no example sink here: run this in a checkout, or name a sink after --")
		}
		at = up
	}
}
