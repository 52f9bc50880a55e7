package programtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// line is what fileSink stores of a unit: the first column of each row, and the position,
// in one write.
type line struct {
	Position, Epoch uint64
	IDs             []string
}

// fileSink keeps a log of JSON lines; its state is its last line.
type fileSink struct {
	mu   sync.Mutex
	file *os.File
	last line
	hang bool
}

func playSink(kind string, args []string) error {
	switch kind {
	case "exit":
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		os.Exit(n)
	case "exit-later":
		time.Sleep(300 * time.Millisecond)
		os.Exit(7)
	case "memory":
		return sink.Run(memorySink(args[0]))
	case "file", "hang", "count":
		s, err := openFileSink(args[0])
		if err != nil {
			return err
		}
		if kind == "count" {
			return sink.Run(countSink{s})
		}
		s.hang = kind == "hang"
		return sink.Run(s)
	}
	return errors.New("no such part: " + kind)
}

func openFileSink(path string) (*fileSink, error) {
	stored, err := readLines(path)
	if err != nil {
		return nil, err
	}
	s := &fileSink{}
	if len(stored) > 0 {
		s.last = stored[len(stored)-1]
	}
	s.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return s, err
}

// readLines leaves out a torn last line: it was never answered.
func readLines(path string) ([]line, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []line
	for in := bufio.NewScanner(f); in.Scan(); {
		var l line
		if json.Unmarshal(in.Bytes(), &l) == nil {
			all = append(all, l)
		}
	}
	return all, nil
}

func (s *fileSink) store(l line) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err := s.file.Write(append(text, '\n')); err != nil {
		return err
	}
	s.last = l
	return s.file.Sync()
}

func (s *fileSink) Capabilities(context.Context) (core.Capabilities, error) {
	return core.Capabilities{Name: "file", Version: "1", Kind: core.AppendLog, Fencing: []core.Fencing{core.FencingStored}}, nil
}

func (s *fileSink) Checkpoint(_ context.Context, r core.CheckpointRequest) (core.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Claim != nil && r.Claim.Epoch > s.last.Epoch {
		if err := s.store(line{Position: s.last.Position, Epoch: r.Claim.Epoch}); err != nil {
			return core.Checkpoint{}, err
		}
	}
	return core.Checkpoint{Position: core.LSN(s.last.Position), Epoch: s.last.Epoch}, nil
}

func (s *fileSink) HandleTransaction(ctx context.Context, unit *core.Unit) (core.Ack, error) {
	return s.HandleBatch(ctx, unit)
}

func (s *fileSink) HandleBatch(ctx context.Context, unit *core.Unit) (core.Ack, error) {
	if s.hang && len(unit.Transactions) > 0 {
		<-ctx.Done()
		return core.Ack{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if unit.Call.Epoch != s.last.Epoch {
		return core.Ack{}, &core.Refusal{Reason: core.ReasonFenced}
	}
	next := line{Position: max(s.last.Position, uint64(unit.Checkpoint)), Epoch: s.last.Epoch}
	for _, t := range unit.Transactions {
		if uint64(t.EndLSN) <= s.last.Position {
			continue
		}
		for _, c := range t.Changes {
			if !c.New.IsZero() {
				next.IDs = append(next.IDs, string(c.New.Value(0).Text))
			}
		}
	}
	if err := s.store(next); err != nil {
		return core.Ack{}, err
	}
	return core.Ack{Checkpoint: unit.Checkpoint}, nil
}
