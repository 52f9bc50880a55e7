package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

// hidden is what no text of ours may carry.
const hidden = "value-4711"

// still is a pipeline that is not run.
func still(t *testing.T, sink core.Sink) (*Pipeline, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	p, err := New(Options{
		Source: wal.Options{DSN: "postgres://u@127.0.0.1/d", Slot: "s", Publications: []string{"p"}}, Sink: sink,
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	require.NoError(t, err)
	return p, &log
}

func TestUnclassifiedEndOfASessionHalts(t *testing.T) {
	p, _ := still(t, sinktest.NewMemory())
	err := p.afterSession(fmt.Errorf("row %s: %w", hidden, errors.ErrUnsupported))
	require.Equal(t, core.HaltInvariant, haltCode(t, err))
	require.NotContains(t, err.Error(), hidden)
	var next *again
	require.ErrorAs(t, p.afterSession(fmt.Errorf("read: %w", wal.ErrConnectionLost)), &next, "what is known is tried again")
}

// Outcomes in doubt are bounded in a row, and progress begins the count anew.
func TestDoubtIsBounded(t *testing.T) {
	for name, row := range map[string]struct {
		class core.Class
		most  int
		want  core.HaltCode
	}{
		"suspicious": {core.ClassSuspicious, suspiciousMax, core.HaltSinkFailed},
		"unknown":    {core.ClassUnknown, unknownMax, core.HaltSinkUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := still(t, sinktest.NewMemory())
			answer := func() error { return p.afterSession(&core.SinkError{Class: row.class, Call: "HandleBatch"}) }
			var next *again
			for range row.most - 1 {
				require.ErrorAs(t, answer(), &next)
			}
			p.doubt.progress(10)
			p.board.update(func(s *Status) { s.Durable = 10 })
			for range row.most - 1 {
				require.ErrorAs(t, answer(), &next)
			}
			require.Equal(t, row.want, haltCode(t, answer()))
		})
	}
	p, _ := still(t, sinktest.NewMemory())
	var next *again
	for range 100 {
		require.ErrorAs(t, p.afterSession(&core.SinkError{Class: core.ClassAway}), &next, "a sink that is away is waited for")
	}
}

// A question leaves nothing in doubt: it is asked without end.
func TestQuestionsAreAskedWithoutEnd(t *testing.T) {
	p, _ := still(t, sinktest.NewMemory())
	var next *again
	for range 20 {
		for _, call := range []string{"GetCapabilities", "Checkpoint", "HandleSessionIdentity", "HandleSlotOrigin"} {
			require.ErrorAs(t, p.afterSession(&core.SinkError{Class: core.ClassSuspicious, Call: call}), &next)
			require.ErrorAs(t, p.afterSession(&core.SinkError{Class: core.ClassUnknown, Call: call}), &next)
		}
	}
}

// A unit that was too big and ended the session is not cut in half: the first half of it
// is done.
func TestTooBigAtTheEndOfASession(t *testing.T) {
	failed := &core.SinkError{Class: core.ClassTooBig, Call: "HandleTransaction"}
	_, ok := answer(failed)
	require.True(t, ok)
	_, ok = answer(&again{StateStarting, reconnectMin, failed})
	require.False(t, ok)
}

func TestFailuresOfASinkCarryNoTextOfIts(t *testing.T) {
	for name, err := range map[string]error{
		"any error": errors.New(hidden), "wrapped": fmt.Errorf("%s: %w", hidden, context.DeadlineExceeded),
		"refusal": &core.Refusal{Reason: core.ReasonUnitRejected, Text: hidden},
		"reason":  &core.Refusal{Reason: "NEW", Text: hidden},
		"status":  &core.SinkError{Class: core.ClassUnknown, Call: "HandleBatch", Code: "Aborted", Detail: hidden},
	} {
		failed := classify("HandleBatch", err)
		var known *core.SinkError
		require.ErrorAs(t, failed, &known, name)
		require.NotContains(t, failed.Error(), hidden, name)
		p, log := still(t, sinktest.NewMemory())
		for range 10 {
			end := p.afterSession(failed)
			require.NotContains(t, end.Error(), hidden, name)
			var next *again
			if errors.As(end, &next) {
				p.note(next)
			}
		}
		require.NotContains(t, log.String()+p.Status().Reason+p.Status().LastError, hidden, name)
	}
	require.Equal(t, core.ClassSuspicious, classify("c", errors.New("x")).(*core.SinkError).Class)
	require.Equal(t, core.ClassUnknown, classify("c", context.Canceled).(*core.SinkError).Class)
}

func TestPanicIsToldWithoutItsValue(t *testing.T) {
	p, log := still(t, sinktest.NewMemory())
	halt := p.caught("loop", errors.New(hidden))
	require.Equal(t, core.HaltPanic, halt.Code)
	require.NotContains(t, halt.Error(), hidden)
	require.Contains(t, log.String(), "answers_test.go", "the stack says where")
	require.NotContains(t, log.String(), hidden)
}

// mute answers every Checkpoint with an error.
type mute struct {
	*sinktest.Memory
	err error
}

func (m mute) Checkpoint(context.Context, core.CheckpointRequest) (core.Checkpoint, error) {
	return core.Checkpoint{}, m.err
}

// A checkpoint that cannot be read is unknown, which is not empty.
func TestUnreadableCheckpointIsNotEmpty(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		halt core.HaltCode // empty: asked again later
	}{
		"refused":           {&core.Refusal{Reason: core.ReasonUnitRejected}, core.HaltCheckpointUnreadable},
		"behind":            {&core.Refusal{Reason: core.ReasonCheckpointBehind}, core.HaltCheckpointUnreadable},
		"too big":           {&core.SinkError{Class: core.ClassTooBig}, core.HaltCheckpointUnreadable},
		"another source":    {&core.Refusal{Reason: core.ReasonSourceMismatch}, core.HaltSourceMismatch},
		"no answer":         {context.DeadlineExceeded, ""},
		"an error":          {errors.New(hidden), ""},
		"not ready":         {&core.Refusal{Reason: core.ReasonNotReady}, ""},
		"a reason from far": {&core.Refusal{Reason: "NEW"}, ""},
		"away":              {&core.SinkError{Class: core.ClassAway}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sink := mute{sinktest.NewMemory(), row.err}
			p, _ := still(t, sink)
			_, err := p.owner(sink.Caps).read(t.Context(), core.SourceIdentity{})
			require.Error(t, err)
			if row.halt != "" {
				require.Equal(t, row.halt, haltCode(t, err))
				return
			}
			var failed *core.SinkError
			require.ErrorAs(t, err, &failed)
		})
	}
}

// obliging answers every claim with the epoch it likes.
type obliging struct {
	*sinktest.Memory
	epoch uint64
}

func (o obliging) Checkpoint(context.Context, core.CheckpointRequest) (core.Checkpoint, error) {
	return core.Checkpoint{Position: 10, Epoch: o.epoch}, nil
}

func TestClaimIsAnsweredWithItsEpoch(t *testing.T) {
	for epoch, good := range map[uint64]bool{0: false, 3: false, 4: true, 5: false} {
		sink := obliging{sinktest.NewMemory(), epoch}
		p, _ := still(t, sink)
		claimed, err := p.owner(sink.Caps).claim(t.Context(), core.SourceIdentity{}, core.Checkpoint{Position: 10, Epoch: 3})
		if good {
			require.NoError(t, err)
			require.Equal(t, epoch, claimed.Epoch)
			continue
		}
		require.Equal(t, core.HaltSinkContract, haltCode(t, err))
	}
}
