package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/replicant-sidecar/replicant-sidecar/cmd/replicant-sidecar/internal/demo"
	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
)

const demoLong = `Starts a Postgres of its own, the sidecar and a sink, fills a small shop with
orders and shows both sides. At the end every row of every table is compared by
a process that is neither sidecar nor sink. Everything is temporary.

With -- and a command, that command is the sink; it gets REPLICANT_SINK_LISTEN.
Exit: 0 when the verdict is exact or not_compared, 3 when it is different.`

type demoFlags struct {
	duration   time.Duration
	rate       int
	seed       uint64
	chaos      bool
	output     string
	bin        string
	noDownload bool
	readSink   []string
}

func newDemo() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use: "demo [flags] [-- command ...]", GroupID: groupStart,
		Short: "Postgres, sidecar and an example sink in one terminal", Long: demoLong,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return &usageError{"the sink's command comes after --"}
			}
			return nil
		},
		RunE: runs(func(cmd *cobra.Command, args []string) error { return runDemo(cmd, f, args) }),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.DurationVar(&f.duration, "for", 0, "end by itself after this long; 0 = at Ctrl-C")
	flags.IntVar(&f.rate, "rate", 500, "row changes a second")
	flags.BoolVar(&f.chaos, "chaos", false, "kill -9 sink and sidecar at random while they work")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of load and chaos; 0 = a random one, printed")
	flags.StringVarP(&f.output, "output", "o", "text", "text, or json: one line at the end")
	flags.StringVar(&f.bin, "pg-bin", "", "folder with postgres and initdb")
	flags.BoolVar(&f.noDownload, "no-download", false, "never fetch Postgres")
	flags.StringSliceVar(&f.readSink, "read-sink", nil, "command that prints what the sink holds, words separated by commas; see examples/python-sink/read.py")
	return cmd
}

func runDemo(cmd *cobra.Command, f demoFlags, args []string) error {
	if f.output != "text" && f.output != "json" {
		return &usageError{"-o is text or json"}
	}
	if f.rate <= 0 {
		return &usageError{"--rate is above 0"}
	}
	if f.seed == 0 {
		f.seed = rand.Uint64()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	people := cmd.ErrOrStderr()
	options := demo.Options{
		For: f.duration, Rate: f.rate, Seed: f.seed, Chaos: f.chaos, Sidecar: self, Out: people,
		Postgres: pgembed.Options{Find: pgembed.FindOptions{Bin: f.bin}},
		Table:    f.output == "text" && term.IsTerminal(int(os.Stderr.Fd())),
	}
	if !f.noDownload {
		options.Postgres.Find.Download = &pgembed.DownloadOptions{}
	}
	if len(args) > 0 {
		options.Sink, options.ReadSink = args, f.readSink
	}
	report, err := demo.Run(ctx, options)
	if err != nil {
		return err
	}
	if f.output == "json" {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
	} else {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), report.Summary())
	}
	if err == nil && report.Verdict == demo.VerdictDifferent {
		return &exitError{core.ExitCheck}
	}
	return err
}
