package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// ledgerSink is an append log in one file, so that a transaction that took effect twice
// shows as two entries. A record holds a whole unit and its checkpoint: it is there or
// it is not. It shares nothing with the Python mirror but the contract.
type ledgerSink struct {
	path string

	mu    sync.Mutex
	file  *os.File
	state ledgerState
}

// ledgerState is the stream's row; it travels in every record.
type ledgerState struct {
	Position, Epoch uint64
	Sender          [16]byte
	System          string
}

// ledgerRecord is one line of the file, behind its checksum.
type ledgerRecord struct {
	State   ledgerState
	Entries []ledgerEntry
}

// ledgerEntry is one transaction: its identity and the ledger rows it inserted.
type ledgerEntry struct {
	XID         uint32
	Commit, End uint64
	Changes     int
	Rows        []string
}

// runLedgerSink is the sink's process.
func runLedgerSink(path string) error {
	s := &ledgerSink{path: path}
	if err := s.open(); err != nil {
		return err
	}
	return sink.Run(s)
}

// readLedger reads whole records and reports where they end; a torn one is the end.
func readLedger(path string) (records []ledgerRecord, end int64, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return records, end, nil
		}
		sum, body, found := strings.Cut(line, " ")
		var r ledgerRecord
		if !found || sum != checksum(body) || json.Unmarshal([]byte(body), &r) != nil {
			return records, end, nil
		}
		records, end = append(records, r), end+int64(len(line))
	}
}

func checksum(body string) string {
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 16)
}

func (s *ledgerSink) open() error {
	records, end, err := readLedger(s.path)
	if err != nil {
		return err
	}
	if len(records) > 0 {
		s.state = records[len(records)-1].State
	}
	if s.file, err = os.OpenFile(s.path, os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	if err := s.file.Truncate(end); err != nil {
		return err
	}
	_, err = s.file.Seek(end, io.SeekStart)
	return err
}

// append makes a record durable, or ends the process: after a failed write nobody knows
// what the file holds.
func (s *ledgerSink) append(r ledgerRecord) {
	body, err := json.Marshal(r)
	if err == nil {
		line := string(body) + "\n"
		_, err = s.file.WriteString(checksum(line) + " " + line)
	}
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ledger:", err)
		os.Exit(1)
	}
	s.state = r.State
}

func (s *ledgerSink) Capabilities(context.Context) (core.Capabilities, error) {
	return core.Capabilities{Name: "ledger", Version: "1", Kind: core.AppendLog, Fencing: []core.Fencing{core.FencingStored}}, nil
}

func (s *ledgerSink) Checkpoint(_ context.Context, r core.CheckpointRequest) (core.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.System != "" && s.state.System != r.Source.SystemIdentifier {
		return core.Checkpoint{}, &core.Refusal{Reason: core.ReasonSourceMismatch}
	}
	if c := r.Claim; c != nil {
		switch {
		case c.Epoch > s.state.Epoch:
			next := s.state
			next.Epoch, next.Sender, next.System = c.Epoch, c.SenderID, r.Source.SystemIdentifier
			s.append(ledgerRecord{State: next})
		case c.Epoch < s.state.Epoch || c.SenderID != s.state.Sender:
			return core.Checkpoint{}, &core.Refusal{Reason: core.ReasonFenced}
		}
	}
	return core.Checkpoint{Position: core.LSN(s.state.Position), Epoch: s.state.Epoch}, nil
}

func (s *ledgerSink) HandleTransaction(ctx context.Context, u *core.Unit) (core.Ack, error) {
	return s.HandleBatch(ctx, u)
}

func (s *ledgerSink) HandleBatch(_ context.Context, u *core.Unit) (core.Ack, error) {
	var entries []ledgerEntry
	for i := range u.Transactions {
		tx := &u.Transactions[i]
		e := ledgerEntry{XID: tx.XID, Commit: uint64(tx.CommitLSN), End: uint64(tx.EndLSN)}
		e.note(tx.Changes)
		entries = append(entries, e)
	}
	return s.unit(u.Call, u.Expected, u.Checkpoint, entries)
}

func (s *ledgerSink) HandleLargeTransaction(ctx context.Context, l core.LargeTransaction) (core.Ack, error) {
	begin := l.Begin()
	e := ledgerEntry{XID: begin.XID, Commit: uint64(begin.CommitLSN)}
	for {
		frame, err := l.Next(ctx)
		if err != nil {
			return core.Ack{}, err
		}
		e.note(frame.Changes)
		if frame.Commit != nil {
			e.End = uint64(frame.Commit.EndLSN)
			return s.unit(begin.Call, begin.Expected, frame.Commit.Checkpoint, []ledgerEntry{e})
		}
	}
}

func (e *ledgerEntry) note(changes []core.Change) {
	e.Changes += len(changes)
	for i := range changes {
		if c := &changes[i]; c.Op == core.OpInsert && c.Relation.Name == "ledger" {
			e.Rows = append(e.Rows, string(c.New.Value(0).Text))
		}
	}
}

func (s *ledgerSink) unit(call core.Call, expected, checkpoint core.LSN, entries []ledgerEntry) (core.Ack, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case call.Epoch < s.state.Epoch:
		return core.Ack{}, &core.Refusal{Reason: core.ReasonFenced}
	case call.Epoch > s.state.Epoch, uint64(expected) > s.state.Position:
		return core.Ack{}, &core.Refusal{Reason: core.ReasonCheckpointBehind}
	}
	record := ledgerRecord{State: s.state}
	for _, e := range entries {
		if e.End > s.state.Position {
			record.Entries = append(record.Entries, e)
		}
	}
	record.State.Position = max(record.State.Position, uint64(checkpoint))
	s.append(record)
	return core.Ack{Checkpoint: checkpoint}, nil
}
