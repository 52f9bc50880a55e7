// Package sinktest holds sinks for tests: Memory keeps the contract of a sink that owns
// its checkpoint, in memory, and remembers every transaction it was given.
package sinktest

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Memory is an append log of whole transactions with their checkpoint. Its store
// outlives sessions, not the process. Safe for use by several goroutines.
type Memory struct {
	// Caps is what Capabilities answers. Change it before use.
	Caps core.Capabilities
	// Before is called with the lock held before a unit is applied; an error refuses
	// the unit. It may be nil.
	Before func(core.Call, core.LSN) error
	// After is called once the unit is durable; an error stands for a lost answer.
	After func(core.Call, core.LSN) error

	mu     sync.Mutex
	stored core.Checkpoint
	sender [16]byte
	log    []Transaction
	units  []Unit
}

// Transaction is a delivered transaction, copied.
type Transaction struct {
	core.Transaction
	Large bool
}

// Unit is a call that was applied.
type Unit struct {
	Expected, Checkpoint core.LSN
	Transactions         int
}

// NewMemory is a state mirror that takes everything of a sink that owns its checkpoint.
func NewMemory() *Memory {
	return &Memory{Caps: core.Capabilities{
		Name: "memory", Version: "1", InstanceID: []byte("memory"), Kind: core.StateMirror,
		Set:     core.NewCapabilitySet(core.CapCheckpoint, core.CapTransaction, core.CapBatch, core.CapLargeTransaction),
		Fencing: []core.Fencing{core.FencingStored},
	}}
}

// Transactions are those that took effect, in order.
func (m *Memory) Transactions() []Transaction {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Transaction(nil), m.log...)
}

// Units are the calls that took effect, idle steps included.
func (m *Memory) Units() []Unit {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Unit(nil), m.units...)
}

// Stored is the checkpoint row.
func (m *Memory) Stored() core.Checkpoint {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stored
}

// SetStored plants a checkpoint row, such as one from a restored backup.
func (m *Memory) SetStored(c core.Checkpoint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stored = c
}

// WaitFor polls until done says so or the time is over, and reports which.
func (m *Memory) WaitFor(limit time.Duration, done func([]Transaction) bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if done(m.Transactions()) {
			return true
		}
	}
	return done(m.Transactions())
}

// Capabilities answers Caps.
func (m *Memory) Capabilities(context.Context) (core.Capabilities, error) { return m.Caps, nil }

// Checkpoint reads, and with a claim takes the stream over.
func (m *Memory) Checkpoint(_ context.Context, r core.CheckpointRequest) (core.Checkpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if claim := r.Claim; claim != nil {
		same := claim.Epoch == m.stored.Epoch && claim.SenderID == m.sender
		if claim.Epoch <= m.stored.Epoch && !same {
			return core.Checkpoint{}, &core.Refusal{Reason: core.ReasonFenced}
		}
		m.stored.Epoch, m.sender = claim.Epoch, claim.SenderID
	}
	return m.stored, nil
}

// HandleTransaction applies a unit of at most one transaction.
func (m *Memory) HandleTransaction(_ context.Context, u *core.Unit) (core.Ack, error) {
	if len(u.Transactions) > 1 {
		return core.Ack{}, fmt.Errorf("%d transactions in one HandleTransaction", len(u.Transactions))
	}
	return m.apply(u.Call, u.Expected, u.Checkpoint, u.Transactions, false)
}

// HandleBatch applies a unit.
func (m *Memory) HandleBatch(_ context.Context, u *core.Unit) (core.Ack, error) {
	return m.apply(u.Call, u.Expected, u.Checkpoint, u.Transactions, false)
}

// HandleLargeTransaction collects the pieces and applies them at the commit frame.
func (m *Memory) HandleLargeTransaction(ctx context.Context, l core.LargeTransaction) (core.Ack, error) {
	begin := l.Begin()
	tx := core.Transaction{XID: begin.XID, CommitLSN: begin.CommitLSN, CommitTime: begin.CommitTime, Origin: begin.Origin}
	for {
		frame, err := l.Next(ctx)
		if err == io.EOF {
			return core.Ack{}, io.ErrUnexpectedEOF
		}
		if err != nil {
			return core.Ack{}, err
		}
		if frame.Commit == nil {
			tx.Changes = append(tx.Changes, cloneChanges(frame.Changes)...)
			continue
		}
		tx.EndLSN = frame.Commit.EndLSN
		if uint64(len(tx.Changes)) != frame.Commit.ChangeCount {
			return core.Ack{}, fmt.Errorf("%d changes, the commit frame counts %d", len(tx.Changes), frame.Commit.ChangeCount)
		}
		return m.apply(begin.Call, begin.Expected, frame.Commit.Checkpoint, []core.Transaction{tx}, true)
	}
}

func (m *Memory) apply(call core.Call, expected, checkpoint core.LSN, txs []core.Transaction, large bool) (core.Ack, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Before != nil {
		if err := m.Before(call, checkpoint); err != nil {
			return core.Ack{}, err
		}
	}
	if err := m.guard(call, expected); err != nil {
		return core.Ack{}, err
	}
	var replayed uint64
	for i := range txs {
		if txs[i].EndLSN <= m.stored.Position {
			replayed++
			continue
		}
		copied := txs[i]
		copied.Changes = cloneChanges(txs[i].Changes)
		m.log = append(m.log, Transaction{copied, large})
	}
	m.stored.Position = max(m.stored.Position, checkpoint)
	m.units = append(m.units, Unit{expected, checkpoint, len(txs)})
	if m.After != nil {
		if err := m.After(call, checkpoint); err != nil {
			return core.Ack{}, err
		}
	}
	return core.Ack{Checkpoint: checkpoint, Counts: core.Counts{ReplayedTransactions: &replayed}}, nil
}

func (m *Memory) guard(call core.Call, expected core.LSN) error {
	switch {
	case call.Epoch < m.stored.Epoch:
		return &core.Refusal{Reason: core.ReasonFenced}
	case call.Epoch > m.stored.Epoch, expected > m.stored.Position:
		return &core.Refusal{Reason: core.ReasonCheckpointBehind}
	}
	return nil
}

func cloneChanges(changes []core.Change) []core.Change {
	list := append([]core.Change(nil), changes...)
	for i := range list {
		list[i].Old, list[i].New = list[i].Old.Clone(), list[i].New.Clone()
		if m := list[i].Message; m != nil {
			copied := *m
			copied.Prefix, copied.Content = append([]byte(nil), m.Prefix...), append([]byte(nil), m.Content...)
			list[i].Message = &copied
		}
	}
	return list
}
