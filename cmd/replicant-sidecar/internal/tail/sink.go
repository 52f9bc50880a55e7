// Package tail is a sink that prints. It stores its position in memory, so that a run
// begins where its slot does and leaves nothing behind.
package tail

import (
	"bufio"
	"context"
	"crypto/rand"
	"io"
	"os"
	"sync"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Options says what to print and when to stop.
type Options struct {
	Out io.Writer
	// Print writes one transaction.
	Print Printer
	// Limit ends the run after so many transactions; 0 is no limit. Enough is called when
	// it is reached.
	Limit  int
	Enough func()
}

// Printer writes transactions in one form.
type Printer interface {
	Begin(w *bufio.Writer, t *core.Transaction) error
	Change(w *bufio.Writer, index int, c *core.Change) error
	End(w *bufio.Writer, t *core.Transaction, changes int) error
}

// Sink implements core.Sink.
type Sink struct {
	options  Options
	out      *bufio.Writer
	instance []byte

	mu       sync.Mutex
	position core.LSN
	epoch    uint64
	printed  int
}

// New makes a sink.
func New(o Options) *Sink {
	s := &Sink{options: o, out: bufio.NewWriterSize(o.Out, 64<<10), instance: make([]byte, 16)}
	_, _ = rand.Read(s.instance)
	return s
}

// Capabilities implements core.Sink. It is an append log: that rows which exist today
// are not printed is no surprise.
func (s *Sink) Capabilities(context.Context) (core.Capabilities, error) {
	return core.Capabilities{
		Name: "tail", Version: "1", InstanceID: s.instance, Kind: core.AppendLog,
		Set:     core.NewCapabilitySet(core.CapCheckpoint, core.CapTransaction, core.CapLargeTransaction, core.CapSchemaChange),
		Fencing: []core.Fencing{core.FencingStored},
	}, nil
}

// Checkpoint implements core.CheckpointHandler.
func (s *Sink) Checkpoint(_ context.Context, r core.CheckpointRequest) (core.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Claim != nil {
		s.epoch = r.Claim.Epoch
	}
	return core.Checkpoint{Position: s.position, Epoch: s.epoch}, nil
}

// HandleSchemaChange implements core.SchemaChangeHandler: rows are printed with the names
// they come with, so no change of a table's shape is in the way.
func (s *Sink) HandleSchemaChange(context.Context, *core.SchemaChangeUnit) error { return nil }

// HandleTransaction implements core.TransactionHandler.
func (s *Sink) HandleTransaction(_ context.Context, unit *core.Unit) (core.Ack, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(unit.Transactions) > 0 && s.full() {
		return core.Ack{}, notNow("HandleTransaction")
	}
	for i := range unit.Transactions {
		if err := s.print(&unit.Transactions[i]); err != nil {
			return core.Ack{}, err
		}
	}
	return s.done(unit.Checkpoint, len(unit.Transactions))
}

func (s *Sink) print(t *core.Transaction) error {
	if err := s.options.Print.Begin(s.out, t); err != nil {
		return err
	}
	for i := range t.Changes {
		if err := s.options.Print.Change(s.out, i, &t.Changes[i]); err != nil {
			return err
		}
	}
	return s.options.Print.End(s.out, t, len(t.Changes))
}

func (s *Sink) full() bool { return s.options.Limit > 0 && s.printed >= s.options.Limit }

// notNow leaves a transaction beyond the limit to the slot: it is not confirmed.
func notNow(call string) error {
	return &core.SinkError{Class: core.ClassAway, Call: call, Code: "limit reached", NeverSent: true}
}

// done stores the position once everything is written out.
func (s *Sink) done(position core.LSN, transactions int) (core.Ack, error) {
	if err := s.out.Flush(); err != nil {
		return core.Ack{}, err
	}
	s.position = max(s.position, position)
	s.printed += transactions
	if transactions > 0 && s.full() && s.options.Enough != nil {
		s.options.Enough()
	}
	return core.Ack{Checkpoint: position}, nil
}

// HandleLargeTransaction implements core.LargeTransactionHandler. The text waits in a
// file without a name until the commit is there: what never committed is not printed.
func (s *Sink) HandleLargeTransaction(ctx context.Context, large core.LargeTransaction) (core.Ack, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full() {
		return core.Ack{}, notNow("HandleLargeTransaction")
	}
	spool, err := os.CreateTemp("", "replicant-tail-")
	if err != nil {
		return core.Ack{}, err
	}
	defer spool.Close()
	if err := os.Remove(spool.Name()); err != nil {
		return core.Ack{}, err
	}
	position, err := s.spool(ctx, spool, large)
	if err != nil {
		return core.Ack{}, err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return core.Ack{}, err
	}
	if _, err := io.Copy(s.out, spool); err != nil {
		return core.Ack{}, err
	}
	return s.done(position, 1)
}

func (s *Sink) spool(ctx context.Context, to io.Writer, large core.LargeTransaction) (core.LSN, error) {
	w := bufio.NewWriterSize(to, 64<<10)
	begin := large.Begin()
	t := core.Transaction{XID: begin.XID, CommitLSN: begin.CommitLSN, CommitTime: begin.CommitTime, Origin: begin.Origin}
	if err := s.options.Print.Begin(w, &t); err != nil {
		return 0, err
	}
	index := 0
	for {
		frame, err := large.Next(ctx)
		if err != nil {
			return 0, err
		}
		for i := range frame.Changes {
			if err := s.options.Print.Change(w, index, &frame.Changes[i]); err != nil {
				return 0, err
			}
			index++
		}
		if frame.Commit == nil {
			continue
		}
		t.EndLSN = frame.Commit.EndLSN
		if err := s.options.Print.End(w, &t, index); err != nil {
			return 0, err
		}
		return frame.Commit.Checkpoint, w.Flush()
	}
}
