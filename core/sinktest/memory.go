// Package sinktest holds sinks for tests, which remember every transaction they were
// given: Memory keeps the contract of a sink that owns its checkpoint, Lib that of one
// whose checkpoint the sidecar keeps.
package sinktest

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Memory keeps whole transactions with their checkpoint, as a log and as a mirror of the
// tables. Its store outlives sessions, not the process. Safe for use by several
// goroutines.
type Memory struct {
	// Caps is what Capabilities answers. Change it before use.
	Caps core.Capabilities
	// Snapshots has the hooks of snapshot units. Change them before use.
	Snapshots
	// Decline makes HandleSchemaChange refuse.
	Decline bool
	// Before is called with the lock held before a unit is applied; an error refuses
	// the unit. It may be nil.
	Before func(core.Call, core.LSN) error
	// After is called once the unit is durable; an error stands for a lost answer.
	After func(core.Call, core.LSN) error

	mu     sync.Mutex
	mirror Mirror
	stored core.Checkpoint
	sender [16]byte
	log    []Transaction
	units  []Unit
	// journal is what happened in its order: "tx", "message", "schema WHAT",
	// "snapshot", "snapshot complete".
	journal  []string
	messages []core.Message
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
		Set: core.NewCapabilitySet(core.CapCheckpoint, core.CapTransaction, core.CapBatch, core.CapLargeTransaction,
			core.CapSnapshot, core.CapSnapshotComplete, core.CapSnapshotProgress),
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

// Journal is what took effect, in order: "tx" for a transaction, "message", "schema" with
// the kind of change, "snapshot" for a unit of one, and "snapshot complete".
func (m *Memory) Journal() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.journal...)
}

// Messages are the logical messages that came outside of transactions.
func (m *Memory) Messages() []core.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]core.Message(nil), m.messages...)
}

// Stored is the checkpoint row.
func (m *Memory) Stored() core.Checkpoint {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stored
}

// IgnoreHoles makes the mirror leave out rows of which a column is not known.
func (m *Memory) IgnoreHoles() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mirror.IgnoreHoles = true
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
	return m.apply(u, false)
}

// HandleBatch applies a unit.
func (m *Memory) HandleBatch(_ context.Context, u *core.Unit) (core.Ack, error) {
	return m.apply(u, false)
}

// HandleMessage stores a message and its position.
func (m *Memory) HandleMessage(_ context.Context, u *core.MessageUnit) (core.Ack, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.guard(u.Call, u.Expected); err != nil {
		return core.Ack{}, err
	}
	if u.Checkpoint > m.stored.Position {
		message := u.Message
		message.Prefix, message.Content = append([]byte(nil), message.Prefix...), append([]byte(nil), message.Content...)
		m.messages, m.journal = append(m.messages, message), append(m.journal, "message")
		m.stored.Position = u.Checkpoint
	}
	return core.Ack{Checkpoint: u.Checkpoint}, nil
}

// HandleSchemaChange notes the change; Decline refuses it.
func (m *Memory) HandleSchemaChange(_ context.Context, u *core.SchemaChangeUnit) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.guard(u.Call, u.Expected); err != nil {
		return err
	}
	if m.Decline {
		return &core.Refusal{Reason: core.ReasonSchemaDeclined}
	}
	m.journal = append(m.journal, "schema "+u.Change.What)
	return nil
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
		if frame.SchemaChange != nil {
			m.mu.Lock()
			m.journal = append(m.journal, "schema "+frame.SchemaChange.What)
			m.mu.Unlock()
			continue
		}
		if frame.Commit == nil {
			tx.Changes = append(tx.Changes, cloneChanges(frame.Changes)...)
			continue
		}
		tx.EndLSN = frame.Commit.EndLSN
		if uint64(len(tx.Changes)) != frame.Commit.ChangeCount {
			return core.Ack{}, fmt.Errorf("%d changes, the commit frame counts %d", len(tx.Changes), frame.Commit.ChangeCount)
		}
		return m.apply(&core.Unit{
			Call: begin.Call, Expected: begin.Expected, Checkpoint: frame.Commit.Checkpoint,
			Transactions: []core.Transaction{tx}, ResumeState: frame.Commit.ResumeState,
		}, true)
	}
}

func (m *Memory) apply(u *core.Unit, large bool) (core.Ack, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Before != nil {
		if err := m.Before(u.Call, u.Checkpoint); err != nil {
			return core.Ack{}, err
		}
	}
	if err := m.guard(u.Call, u.Expected); err != nil {
		return core.Ack{}, err
	}
	var replayed uint64
	for i := range u.Transactions {
		if u.Transactions[i].EndLSN <= m.stored.Position {
			replayed++
			continue
		}
		copied := u.Transactions[i]
		copied.Changes = cloneChanges(copied.Changes)
		m.mirror.Apply(copied.Changes)
		m.log, m.journal = append(m.log, Transaction{copied, large}), append(m.journal, "tx")
	}
	m.stored.Position = max(m.stored.Position, u.Checkpoint)
	if u.ResumeState != nil {
		m.stored.ResumeState = append([]byte{}, u.ResumeState...)
	}
	m.units = append(m.units, Unit{u.Expected, u.Checkpoint, len(u.Transactions)})
	if m.After != nil {
		if err := m.After(u.Call, u.Checkpoint); err != nil {
			return core.Ack{}, err
		}
	}
	return core.Ack{Checkpoint: u.Checkpoint, Counts: core.Counts{ReplayedTransactions: &replayed}}, nil
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
