package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core/config"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

func durationOf(d config.Duration) time.Duration { return time.Duration(d) }

// engineOptions turns the configuration into the engine's own options; the sink is added
// by the caller.
func engineOptions(c *config.Config, log *slog.Logger) pipeline.Options {
	return pipeline.Options{
		StreamID: c.StreamID,
		Source: wal.Options{
			DSN: c.Source.Reveal(), Slot: c.Slot, Publications: c.Publications, ApplicationName: "replicant-sidecar",
			Streaming:     c.Streaming == "on",
			SenderTimeout: durationOf(c.SenderTimeout), StatusInterval: durationOf(c.StatusInterval), Logger: log,
		},
		Delivery: pipeline.Delivery{
			Mode: modeOf(c.Delivery.Mode), MaxTransactions: c.Delivery.MaxTransactions,
			MaxDelay: durationOf(c.Delivery.MaxDelay), MaxSpan: int64(c.Delivery.MaxSpan),
		},
		Spill:         pipeline.Spilling{Dir: spillDir(c.Spill.Dir), Max: int64(c.Spill.Max)},
		GoForwardOnly: c.GoForwardOnly, AdoptSlot: c.AdoptSlot, AcceptTimeline: c.AcceptTimeline,
		DrainTimeout: durationOf(c.DrainTimeout), SinkWait: durationOf(c.Sink.Wait), Logger: log,
	}
}

// spillDir is the folder that is set, or one of this user's own.
func spillDir(set string) string {
	if set != "" {
		return set
	}
	return filepath.Join(os.TempDir(), "replicant-spill-"+strconv.Itoa(os.Getuid()))
}

func modeOf(word string) pipeline.Mode {
	switch word {
	case "transaction":
		return pipeline.ModeTransaction
	case "batch":
		return pipeline.ModeBatch
	}
	return pipeline.ModeAuto
}
