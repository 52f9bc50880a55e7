package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/replicant-sidecar/replicant-sidecar/cmd/replicant-sidecar/internal/admin"
	"github.com/replicant-sidecar/replicant-sidecar/cmd/replicant-sidecar/internal/bars"
	"github.com/replicant-sidecar/replicant-sidecar/cmd/replicant-sidecar/internal/logging"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

func newSnapshotWatch() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "watch", Args: cobra.NoArgs,
		Short: "Show the copy until it is done; Ctrl-C ends the watching alone",
		RunE: runs(func(cmd *cobra.Command, _ []string) error {
			port, err := openAdmin(cmd, output)
			if err != nil {
				return err
			}
			defer port.close()
			ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer release()
			return watchCopy(ctx, port, viewer(cmd.OutOrStdout(), output))
		}),
	}
	adminFlags(cmd, &output)
	return cmd
}

// shownReport is what is read of a sidecar's report.
type shownReport struct {
	Copy     *shownCopy `json:"copy"`
	LastHalt *struct {
		Code   string `json:"code"`
		Detail string `json:"detail"`
	} `json:"last_halt"`
}

// shownCopy is a copy as the report has it, with the position as text.
type shownCopy struct {
	admin.CopyInfo
	SnapshotLSN string `json:"snapshot_lsn"`
}

// view shows a copy, nil for none, and says how long until the next look.
type view func(c *shownCopy, over bool) time.Duration

// How often a copy is looked at: for bars, and for lines.
const (
	barsEvery  = 250 * time.Millisecond
	linesEvery = 5 * time.Second
	jsonEvery  = time.Second
)

func viewer(out io.Writer, output string) view {
	if output == "json" {
		return func(c *shownCopy, _ bool) time.Duration {
			if c != nil {
				_ = json.NewEncoder(out).Encode(c)
			}
			return jsonEvery
		}
	}
	lines := func(lines []string) {
		for _, l := range lines {
			fmt.Fprintln(out, l)
		}
	}
	screen, meter, terminal := bars.NewScreen(out), &bars.Meter{}, logging.IsTerminal(out)
	return func(c *shownCopy, over bool) time.Duration {
		switch {
		case !over && terminal:
			screen.Draw(meter.Bars(copyStatus(c), screen.Width(), time.Now()))
			return barsEvery
		case !over:
			lines(meter.Plain(copyStatus(c), time.Now()))
			return linesEvery
		}
		screen.Draw(nil)
		lines(bars.Summary(copyStatus(c)))
		return 0
	}
}

// watchCopy looks until the copy is over, or ctx is.
func watchCopy(ctx context.Context, port *adminPort, show view) error {
	for {
		report, err := port.status(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		c := report.Copy
		over := c == nil || c.Phase == string(pipeline.CopyDone)
		pause := show(c, over)
		switch {
		case over:
			return nil
		case report.LastHalt != nil:
			return fmt.Errorf("the sidecar has halted: %s; see replicant-sidecar explain %s", report.LastHalt.Detail, report.LastHalt.Code)
		}
		for left := pause; left > 0; left -= barsEvery { // the end is told when it comes
			select {
			case <-time.After(min(left, barsEvery)):
			case <-ctx.Done():
				return nil
			}
			if again, err := port.status(ctx); err == nil && (again.Copy == nil || again.Copy.Phase == string(pipeline.CopyDone)) {
				break
			}
		}
	}
}

// copyStatus is what the engine had shown.
func copyStatus(c *shownCopy) *pipeline.CopyStatus {
	if c == nil {
		return nil
	}
	st := &pipeline.CopyStatus{
		Kind: c.Kind, Phase: pipeline.CopyPhase(c.Phase), Since: c.Since, Waiting: c.Waiting, Failing: c.Failing,
		Rows: c.Rows, Bytes: c.Bytes, XminAge: c.XminAge, HeldBytes: c.HeldBytes,
	}
	for _, t := range c.Tables {
		st.Tables = append(st.Tables, pipeline.TableProgress(t))
	}
	return st
}
