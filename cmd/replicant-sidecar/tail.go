package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/replicant-sidecar/replicant-sidecar/cmd/replicant-sidecar/internal/logging"
	"github.com/replicant-sidecar/replicant-sidecar/cmd/replicant-sidecar/internal/tail"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/config"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// tailKeys are the settings that tail takes; the others have no meaning without a sink.
var tailKeys = map[string]bool{
	"source": true, "slot": true, "publications": true, "sender_timeout": true, "status_interval": true,
	"adopt_slot": true, "drain_timeout": true, "log.format": true, "log.level": true,
}

func newTail() *cobra.Command {
	var output string
	var limit int
	cmd := &cobra.Command{
		Use: "tail [flags]", GroupID: groupStart, Args: cobra.NoArgs,
		Short: "Print transactions as text or JSON lines, no sink needed",
		Long: `Prints committed transactions from now on. It reads through a temporary slot, which ends with it
and moves nobody else's position.

With --slot it reads from a slot of that name, makes it where there is none, leaves it behind and
MOVES ITS POSITION: what was printed will not come again. A slot that exists is touched with
--adopt-slot only. Never name the slot of a running sidecar.`,
		Example: `  replicant-sidecar tail --source "$DATABASE_URL" --publications shop
  replicant-sidecar tail --source "$DATABASE_URL" -o json --limit 10 | jq .`,
		RunE: runs(func(cmd *cobra.Command, _ []string) error { return runTail(cmd, output, limit) }),
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	cmd.Flags().IntVar(&limit, "limit", 0, "end after so many transactions; 0 = never")
	addConfigFlags(cmd, func(path string) bool { return tailKeys[path] })
	return cmd
}

func runTail(cmd *cobra.Command, output string, limit int) error {
	printers := map[string]tail.Printer{"text": tail.Text{}, "json": tail.JSON{}}
	if printers[output] == nil {
		return &usageError{"-o is text or json"}
	}
	if limit < 0 {
		return &usageError{"--limit must not be negative"}
	}
	loaded, err := load(cmd, "source")
	tellNotes(cmd.ErrOrStderr(), loaded)
	if err != nil {
		return err
	}
	level := "warn"
	if loaded.Origin("log.level").Layer != "default" {
		level = loaded.Log.Level
	}
	log, err := logging.New(cmd.ErrOrStderr(), loaded.Log.Format, level)
	if err != nil {
		return err
	}
	s := &sidecar{config: &loaded.Config, log: log}
	s.config.OnHalt = "exit"
	var drain func()
	sink := tail.New(tail.Options{
		Out: cmd.OutOrStdout(), Print: printers[output], Limit: limit, Enough: func() { drain() },
	})
	options := engineOptions(s.config, log)
	options.Sink = sink
	options.GoForwardOnly, options.Source.Messages = true, false
	options.Snapshot, options.SnapshotRedo = checkpoint.SnapshotNone, false // what the sidecar copies is not shown here
	options.Delivery.Mode = pipeline.ModeTransaction
	if !named(loaded, "slot") {
		options.Source.Slot, options.Source.Temporary = temporarySlot(), true
		options.StreamID = options.Source.Slot
	}
	engine, err := pipeline.New(options)
	if err != nil {
		return err
	}
	drain = engine.Drain
	signals, release := drainSignals()
	defer release()
	fmt.Fprintf(cmd.ErrOrStderr(), "waiting for transactions of %s; Ctrl-C ends\n", strings.Join(loaded.Publications, ", "))
	err = s.watch(engine, signals)
	if errors.Is(err, pipeline.ErrAbort) || errors.Is(err, pipeline.ErrLeftOpen) {
		return nil // what was shown is kept nowhere
	}
	return err
}

// named reports whether a setting was given on the command line: a slot that the
// configuration names for the sidecar is not tail's.
func named(l *config.Loaded, path string) bool { return l.Origin(path).Layer == "flag" }

func temporarySlot() string {
	id := make([]byte, 6)
	_, _ = rand.Read(id) // documented never to fail
	return "replicant_tail_" + hex.EncodeToString(id)
}
