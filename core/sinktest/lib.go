package sinktest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Lib is an append log that keeps no checkpoint: the sidecar does. It has the fence that
// such a sink owes: instance, epoch and sequence in memory. Its log is its store and
// outlives Restart; a transaction that takes effect twice stands there twice.
type Lib struct {
	// Caps is what Capabilities answers, except for the instance. Change it before use.
	Caps core.Capabilities
	// Snapshots has the hooks of snapshot units. Change them before use.
	Snapshots
	// Unfenced takes every call as it comes.
	Unfenced bool
	// Arrive is called before the fence and before the call has its turn, Before behind
	// the fence; an error of theirs means that nothing was done. After is called once the
	// effect is there; an error stands for a lost answer. Each may be nil.
	Arrive, Before, After func(core.Call, core.LSN) error

	turn sync.Mutex // one writing call at a time

	mu              sync.Mutex
	mirror          Mirror
	instance        byte
	epoch, sequence uint64
	log             []Transaction
	messages        []core.Message
	refused         []core.Reason
}

// NewLib is an append log with the fence in its memory.
func NewLib() *Lib {
	return &Lib{instance: 1, Caps: core.Capabilities{
		Name: "lib", Version: "1", Kind: core.AppendLog,
		Set:     core.NewCapabilitySet(core.CapTransaction, core.CapLargeTransaction, core.CapMessage, core.CapSnapshot),
		Fencing: []core.Fencing{core.FencingInstance},
	}}
}

// Restart is the end of the sink's process and the begin of another one.
func (l *Lib) Restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.instance++
	l.epoch, l.sequence = 0, 0
}

// Transactions are the effects, in order, repeats included.
func (l *Lib) Transactions() []Transaction {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Transaction(nil), l.log...)
}

// Messages are the messages that were taken, repeats included.
func (l *Lib) Messages() []core.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]core.Message(nil), l.messages...)
}

// Refused are the answers of the fence, in order.
func (l *Lib) Refused() []core.Reason {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]core.Reason(nil), l.refused...)
}

// WaitFor polls until done says so or the time is over, and reports which.
func (l *Lib) WaitFor(limit time.Duration, done func([]Transaction) bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if done(l.Transactions()) {
			return true
		}
	}
	return done(l.Transactions())
}

// Capabilities answers Caps with the instance of now.
func (l *Lib) Capabilities(context.Context) (core.Capabilities, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	caps := l.Caps
	caps.InstanceID = []byte{l.instance}
	return caps, nil
}

// HandleTransaction takes one transaction.
func (l *Lib) HandleTransaction(ctx context.Context, u *core.Unit) (core.Ack, error) {
	if len(u.Transactions) != 1 {
		return core.Ack{}, fmt.Errorf("%d transactions in one HandleTransaction of lib mode", len(u.Transactions))
	}
	return l.call(ctx, u.Call, u.Checkpoint, func() error {
		copied := u.Transactions[0]
		copied.Changes = cloneChanges(copied.Changes)
		l.mirror.Apply(copied.Changes)
		l.log = append(l.log, Transaction{copied, false})
		return nil
	})
}

// HandleMessage takes one message outside transactions.
func (l *Lib) HandleMessage(ctx context.Context, u *core.MessageUnit) (core.Ack, error) {
	return l.call(ctx, u.Call, u.Checkpoint, func() error {
		m := u.Message
		m.Prefix, m.Content = bytes.Clone(m.Prefix), bytes.Clone(m.Content)
		l.messages = append(l.messages, m)
		return nil
	})
}

// HandleLargeTransaction has its turn from the first frame to the last.
func (l *Lib) HandleLargeTransaction(ctx context.Context, large core.LargeTransaction) (core.Ack, error) {
	begin := large.Begin()
	tx := core.Transaction{XID: begin.XID, CommitLSN: begin.CommitLSN, CommitTime: begin.CommitTime, Origin: begin.Origin}
	return l.call(ctx, begin.Call, begin.CommitLSN, func() error {
		for {
			frame, err := large.Next(ctx)
			if err == io.EOF {
				return io.ErrUnexpectedEOF
			}
			if err != nil {
				return err
			}
			if frame.Commit != nil {
				tx.EndLSN = frame.Commit.EndLSN
				l.mirror.Apply(tx.Changes)
				l.log = append(l.log, Transaction{tx, true})
				return nil
			}
			tx.Changes = append(tx.Changes, cloneChanges(frame.Changes)...)
		}
	})
}

func (l *Lib) call(ctx context.Context, call core.Call, at core.LSN, effect func() error) (core.Ack, error) {
	if err := hook(l.Arrive, call, at); err != nil {
		return core.Ack{}, err
	}
	l.turn.Lock()
	defer l.turn.Unlock()
	if err := l.admit(call); err != nil {
		return core.Ack{}, err
	}
	if err := hook(l.Before, call, at); err != nil {
		return core.Ack{}, err
	}
	if ctx.Err() != nil {
		return core.Ack{}, ctx.Err() // a sink behind the wire would never have begun
	}
	l.mu.Lock()
	err := effect()
	l.mu.Unlock()
	if err != nil {
		return core.Ack{}, err
	}
	// The position that a lib sink answers is ignored.
	return core.Ack{Checkpoint: 1}, hook(l.After, call, at)
}

func hook(h func(core.Call, core.LSN) error, call core.Call, at core.LSN) error {
	if h == nil {
		return nil
	}
	return h(call, at)
}

// admit is the fence: instance, epoch, sequence, in this order.
func (l *Lib) admit(call core.Call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var reason core.Reason
	switch {
	case call.Owner != core.OwnerSidecar:
		return fmt.Errorf("this sink keeps no checkpoint")
	case l.Unfenced:
		return nil
	case !bytes.Equal(call.InstanceID, []byte{l.instance}):
		reason = core.ReasonInstanceChanged
	case call.Epoch < l.epoch:
		reason = core.ReasonFenced
	case call.Epoch == l.epoch && call.Sequence <= l.sequence:
		reason = core.ReasonStaleDelivery
	default:
		l.epoch, l.sequence = call.Epoch, call.Sequence
		return nil
	}
	l.refused = append(l.refused, reason)
	return &core.Refusal{Reason: reason}
}
