package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	results "github.com/replicant-sidecar/replicant-sidecar/conformance/report"
)

const conformanceLong = `Tries a sink against the sink contract and says which rules it keeps: that a repeat changes nothing,
that rows and position are stored together or not at all whatever is killed in between, that every
value is stored as it was sent, and so on for all that the sink advertises.

  managed   conformance -- command     we start the sink, kill it, and start it again
  attached  conformance --sink ADDR    it runs already; what needs a kill is skipped
  hooked    --sink ADDR --start CMD --kill CMD --stop CMD   for containers: CMD is for sh -c

A sink that we start is told by REPLICANT_SINK_LISTEN where to listen, and is killed at each of its own
calls to the kernel that touch files or the network, one after the other (Linux; elsewhere by the clock).

To compare rows, somebody has to read the sink's store: --probe, --probe-address or --dsn. What you write
into a file conformance.yaml beside the sink need not be said again. docs/conformance.md has all of it.`

func newConformance() *cobra.Command {
	f := &conformanceFlags{}
	cmd := &cobra.Command{
		Use: "conformance [flags] [-- command...]", GroupID: groupBuild, Args: cobra.ArbitraryArgs,
		Short: "Test a sink in any language against the contract",
		Long:  conformanceLong,
		Example: `  replicant-sidecar conformance -- python3 examples/python-sink/sink.py
  replicant-sidecar conformance --run 'ATM-*' --crash-points all --report html=report.html -- ./my-sink
  replicant-sidecar conformance --sink 127.0.0.1:50051 --dsn "$SINK_DATABASE_URL"`,
		RunE: runs(func(cmd *cobra.Command, args []string) error { return runConformance(cmd, f, args) }),
	}
	f.add(cmd, true)
	run := &cobra.Command{
		Use: "run [flags] [-- command...]", Args: cobra.ArbitraryArgs,
		Short: "The same as without a word: try the sink", Long: conformanceLong,
	}
	r := &conformanceFlags{}
	r.add(run, true)
	run.RunE = runs(func(cmd *cobra.Command, args []string) error { return runConformance(cmd, r, args) })
	cmd.AddCommand(run, newConformanceList(), newConformanceExplain(), newConformanceSelftest(), newConformanceProbe(), newConformanceReport())
	return cmd
}

// command is what stands behind "--". Words before it are a mistake.
func commandOf(cmd *cobra.Command, args []string) ([]string, error) {
	if dash := cmd.ArgsLenAtDash(); dash != 0 && len(args) > 0 {
		return nil, &usageError{fmt.Sprintf("what is %q? A sink's command stands behind --, its address behind --sink", args[0])}
	}
	return args, nil
}

func runConformance(cmd *cobra.Command, f *conformanceFlags, args []string) error {
	command, err := commandOf(cmd, args)
	if err != nil {
		return err
	}
	out, err := newConformanceOutput(cmd, f)
	if err != nil {
		return err
	}
	ctx, release := interrupted(cmd.Context())
	defer release()
	s, options, err := f.open(ctx, cmd.ErrOrStderr(), command)
	if err != nil {
		return err
	}
	options.Observe = out.observe
	sum, err := conformance.Run(ctx, *options)
	var misused *conformance.UseError
	if err != nil && ctx.Err() == nil && !errors.As(err, &misused) { // else the sink was not even started
		if what := s.Diagnose(); what != "" {
			err = fmt.Errorf("%w; %s", err, what)
		}
	}
	fallback := s.Fallback()
	closed := s.Close()
	if err != nil {
		return harness(cmd, ctx, err)
	}
	if fallback != "" {
		sum.Notes = append(sum.Notes, "crash points are a sample: "+fallback)
	}
	if err := out.finish(sum); err != nil {
		return harness(cmd, ctx, err)
	}
	if closed != nil {
		return harness(cmd, ctx, closed)
	}
	if sum.Exit != conformance.ExitPass {
		return &exitError{sum.Exit}
	}
	return nil
}

// harness reports that the run itself could not be made: exit code 2.
func harness(cmd *cobra.Command, ctx context.Context, err error) error {
	if ctx.Err() != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "interrupted; nothing was found out")
	} else {
		fmt.Fprintf(cmd.ErrOrStderr(), "error: %s\n", err)
	}
	return &exitError{conformance.ExitHarness}
}

// interrupted ends the context at the first signal, so that the sink is ended before us.
func interrupted(parent context.Context) (context.Context, func()) {
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithCancel(parent)
	signals, release := drainSignals()
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); <-done; release() }
}

func newConformanceProbe() *cobra.Command {
	f := &conformanceFlags{}
	cmd := &cobra.Command{
		Use: "probe-check [flags] [-- command...]", Args: cobra.ArbitraryArgs,
		Short: "Only try whether the store is read truly",
		Long: `Writes a few rows through the sink and looks whether the probe shows just these, also while the sink is
stopped. Every run begins with it; this is for the author of a probe.`,
		RunE: runs(func(cmd *cobra.Command, args []string) error {
			command, err := commandOf(cmd, args)
			if err != nil {
				return err
			}
			ctx, release := interrupted(cmd.Context())
			defer release()
			s, options, err := f.open(ctx, cmd.ErrOrStderr(), command)
			if err != nil {
				return err
			}
			err = conformance.CheckProbe(ctx, *options)
			closed := s.Close()
			if err == nil {
				err = closed
			}
			if err != nil {
				return harness(cmd, ctx, err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "ok: the probe shows what the sink stores")
			return nil
		}),
	}
	f.add(cmd, false)
	return cmd
}

func newConformanceReport() *cobra.Command {
	var reports []string
	cmd := &cobra.Command{
		Use: "report FILE.jsonl [--report FORMAT=FILE]", Args: cobra.ExactArgs(1),
		Short: "Make other reports of the JSON lines of a run",
		RunE: runs(func(cmd *cobra.Command, args []string) error {
			sum, err := readReport(args[0])
			if err != nil {
				return harness(cmd, context.Background(), err)
			}
			if len(reports) == 0 {
				return results.Text(cmd.OutOrStdout(), sum)
			}
			if err := writeReports(sum, reports); err != nil {
				return misuse(cmd.ErrOrStderr(), err)
			}
			return nil
		}),
	}
	cmd.Flags().StringArrayVar(&reports, "report", nil, reportHelp)
	return cmd
}
