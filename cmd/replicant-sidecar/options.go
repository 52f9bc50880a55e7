package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint/filestore"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint/pgstore"
	"github.com/replicant-sidecar/replicant-sidecar/core/config"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

func durationOf(d config.Duration) time.Duration { return time.Duration(d) }

// engineOptions turns the configuration into the engine's own options; the sink is added
// by the caller.
func engineOptions(c *config.Config, log *slog.Logger) pipeline.Options {
	o := pipeline.Options{
		StreamID: c.StreamID,
		Source: wal.Options{
			DSN: c.Source.Reveal(), Slot: c.Slot, Publications: c.Publications, ApplicationName: "replicant-sidecar",
			Streaming: c.Streaming == "on", Messages: c.Messages,
			SenderTimeout: durationOf(c.SenderTimeout), StatusInterval: durationOf(c.StatusInterval), Logger: log,
		},
		Delivery: pipeline.Delivery{
			Mode: modeOf(c.Delivery.Mode), MaxTransactions: c.Delivery.MaxTransactions,
			MaxDelay: durationOf(c.Delivery.MaxDelay), MaxSpan: int64(c.Delivery.MaxSpan),
		},
		Spill:    pipeline.Spilling{Dir: spillDir(c.Spill.Dir), Max: int64(c.Spill.Max)},
		Snapshot: snapshotOf(c.Snapshot), SnapshotRedo: c.SnapshotRedo,
		Copy: pipeline.Copying{
			Connections: c.Copy.Connections, ChunkRows: c.Copy.ChunkRows, MaxHold: durationOf(c.Copy.MaxHold),
			MaxXminAge: int64(c.Copy.MaxXminAge), MaxHeld: int64(c.Copy.MaxHeld),
		},
		GoForwardOnly: c.GoForwardOnly, AdoptSlot: c.AdoptSlot, AcceptTimeline: c.AcceptTimeline,
		AcceptSchemaChange: c.AcceptSchemaChange, NoHeartbeat: !c.Heartbeat,
		DrainTimeout: durationOf(c.DrainTimeout), SinkWait: durationOf(c.Sink.Wait), Logger: log,
		AcceptUnfenced: c.AcceptUnfenced, StoreWait: durationOf(c.CheckpointStore.Wait),
	}
	if c.CheckpointStore.Used() {
		o.StoreBatch, o.Delivery.MaxDelay = c.CheckpointStore.Batch.MaxTransactions, durationOf(c.CheckpointStore.Batch.MaxDelay)
	}
	return o
}

// openStore makes the store of the configuration; nil where the sink keeps the position.
func openStore(c *config.Config, log *slog.Logger) (checkpoint.Store, error) {
	s := c.CheckpointStore
	switch {
	case s.Postgres.DSN != "":
		return pgstore.New(pgstore.Options{
			DSN: s.Postgres.DSN.Reveal(), Table: s.Postgres.Table, Publications: c.Publications, Logger: log,
		})
	case s.File.Dir != "":
		return filestore.Open(s.File.Dir)
	}
	return nil, nil
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

func snapshotOf(word string) checkpoint.Snapshot {
	switch word {
	case "initial":
		return checkpoint.SnapshotInitial
	case "incremental":
		return checkpoint.SnapshotIncremental
	}
	return checkpoint.SnapshotNone
}
