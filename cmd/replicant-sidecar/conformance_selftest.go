package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/selftest"
)

// progress tells a survivor at once, and on a terminal how many were tried.
func progress(out io.Writer) func(selftest.Row) {
	tried, watched := 0, isTerminal(out)
	return func(r selftest.Row) {
		tried++
		switch {
		case r.Survived():
			fmt.Fprintf(out, "SURVIVED  %s\n", r.Mutant)
		case watched:
			fmt.Fprintf(out, "\r%d tried ", tried)
		}
	}
}

func newConformanceSelftest() *cobra.Command {
	var o selftest.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use: "selftest", Args: cobra.NoArgs,
		Short: "Try the suite itself: sinks without a defect, and one for each defect",
		Long: `Runs the suite against sinks of its own: those without a defect must pass, and each of those with one
must be found by the cases that are there for it. A suite in which a defect survives proves nothing,
and this ends with exit code 3.`,
		RunE: runs(func(cmd *cobra.Command, _ []string) error {
			ctx, release := interrupted(cmd.Context())
			defer release()
			if !asJSON {
				o.Observe = progress(cmd.ErrOrStderr())
			}
			m, err := selftest.Run(ctx, o)
			if err != nil {
				return harness(cmd, ctx, err)
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				err = e.Encode(m)
			} else {
				_, err = fmt.Fprint(cmd.OutOrStdout(), m.Text())
			}
			switch {
			case err != nil:
				return err
			case !m.OK():
				return &exitError{conformance.ExitFailures}
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&o.Full, "full", false, "every case against every defect, not only those that must find it and a tenth of the rest")
	flags.StringSliceVar(&o.Only, "only", nil, "only these defects, by name")
	flags.IntVar(&o.Parallel, "parallel", 0, "sinks at a time; 0 = 4")
	flags.Uint64Var(&o.Seed, "seed", 0, "of all that is random; 0 picks one")
	flags.BoolVar(&asJSON, "json", false, "the matrix as JSON")
	return cmd
}
