package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// Environment of a reader process.
const (
	envDSN  = "BENCH_DSN"
	envSlot = "BENCH_SLOT"
	envEnd  = "BENCH_END" // position at which the drain is complete
)

// reader is one of the readers that this program is itself.
func reader(name string) error {
	end, err := core.ParseLSN(os.Getenv(envEnd))
	if err != nil {
		return err
	}
	switch name {
	case "drain":
		return drain(end, false)
	case "decode":
		return drain(end, true)
	case "sink":
		return sink.Run(&nullSink{end: end})
	}
	return fmt.Errorf("no reader %q", name)
}

// drain reads the slot to nowhere, with or without decoding.
func drain(end core.LSN, decode bool) error {
	ctx := context.Background()
	options := wal.Options{DSN: os.Getenv(envDSN), Slot: os.Getenv(envSlot), Publications: []string{"p"}}
	catalog, err := wal.OpenCatalog(ctx, options)
	if err != nil {
		return err
	}
	slot, err := catalog.Slot(ctx, options.Slot)
	_ = catalog.Close()
	if err != nil {
		return err
	}
	conn, err := wal.Connect(ctx, options)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Start(ctx, slot.ConfirmedFlush, slot.ConfirmedFlush); err != nil {
		return err
	}
	decoder, message := pgoutput.NewDecoder(pgoutput.Options{}), pgoutput.Message{}
	var batch wal.Batch
	for at := core.LSN(0); at < end; {
		if err := conn.Read(ctx, &batch); err != nil {
			return err
		}
		for _, f := range batch.Frames {
			at = max(at, f.WALEnd)
			if decode && !f.Keepalive {
				if err := decoder.Decode(f.Data, &message); err != nil {
					return err
				}
			}
		}
	}
	done()
	return nil
}

// done tells the bench that the backlog is drained and waits to be measured.
func done() {
	fmt.Println("done")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// nullSink keeps its checkpoint in memory, looks at every value and stores nothing.
type nullSink struct {
	end core.LSN

	mu     sync.Mutex
	stored core.Checkpoint
	token  []byte
	bytes  uint64
}

func (s *nullSink) Capabilities(context.Context) (core.Capabilities, error) {
	return core.Capabilities{Name: "null", Version: "1", Kind: core.StateMirror, Fencing: []core.Fencing{core.FencingStored},
		Limits: core.SinkLimits{RequestBytes: 8 << 20, PreferredBytes: 1 << 20}}, nil
}

func (s *nullSink) Checkpoint(_ context.Context, r core.CheckpointRequest) (core.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Claim != nil {
		s.stored.Epoch = r.Claim.Epoch
	}
	return s.stored, nil
}

func (s *nullSink) HandleTransaction(ctx context.Context, u *core.Unit) (core.Ack, error) {
	return s.HandleBatch(ctx, u)
}

func (s *nullSink) HandleBatch(_ context.Context, u *core.Unit) (core.Ack, error) {
	for i := range u.Transactions {
		s.walk(u.Transactions[i].Changes)
	}
	return s.store(u.Checkpoint), nil
}

func (s *nullSink) HandleLargeTransaction(ctx context.Context, l core.LargeTransaction) (core.Ack, error) {
	var end core.LSN
	for {
		f, err := l.Next(ctx)
		if errors.Is(err, io.EOF) {
			return s.store(end), nil
		}
		if err != nil {
			return core.Ack{}, err
		}
		s.walk(f.Changes)
		if f.Commit != nil {
			end = f.Commit.Checkpoint
		}
	}
}

func (s *nullSink) HandleSnapshot(_ context.Context, u *core.SnapshotUnit) (core.Counts, error) {
	for _, row := range u.Rows {
		for _, v := range row.Values() {
			s.bytes += uint64(len(v.Text))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.Token != nil {
		s.token = append([]byte{}, u.Token...)
	}
	if u.BackfillComplete {
		fmt.Println("done")
	}
	return core.Counts{}, nil
}

func (s *nullSink) HandleSnapshotComplete(_ context.Context, u *core.SnapshotCompleteUnit) (core.Ack, error) {
	return s.store(u.Checkpoint), nil
}

func (s *nullSink) SnapshotProgress(context.Context, core.SnapshotProgressRequest) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token, nil
}

func (s *nullSink) walk(changes []core.Change) {
	for i := range changes {
		for _, v := range changes[i].New.Values() {
			s.bytes += uint64(len(v.Text))
		}
	}
}

func (s *nullSink) store(at core.LSN) core.Ack {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.stored.Position; before < s.end && at >= s.end {
		fmt.Println("done")
	}
	s.stored.Position = max(s.stored.Position, at)
	return core.Ack{Checkpoint: at}
}
