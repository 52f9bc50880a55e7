package pipeline_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint/filestore"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// The order of a unit whose checkpoint is ours: the sink's OK, then the row, then Postgres.

// forgetful is a sink that keeps no checkpoint.
type forgetful struct {
	mu       sync.Mutex
	instance byte
	calls    []core.Call
	// answer decides the n-th call, from 1, with the lock held.
	answer func(n int) error
}

func (f *forgetful) Capabilities(context.Context) (core.Capabilities, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return core.Capabilities{
		Name: "forgetful", Version: "1", Kind: core.AppendLog, InstanceID: []byte{f.instance},
		Set: core.NewCapabilitySet(core.CapTransaction), Fencing: []core.Fencing{core.FencingInstance},
	}, nil
}

func (f *forgetful) HandleTransaction(_ context.Context, u *core.Unit) (core.Ack, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(u.Transactions) == 0 {
		return core.Ack{}, fmt.Errorf("an idle step is the row's alone")
	}
	f.calls = append(f.calls, u.Call)
	return core.Ack{}, f.answer(len(f.calls))
}

// shelf is a play whose checkpoint is a row in a file.
type shelf struct {
	*play
	sink  *forgetful
	store *filestore.Store
}

func (s *shelf) row() checkpoint.Record {
	s.Helper()
	r, found, err := s.store.Read(s.Context(), "s")
	require.NoError(s, err)
	require.True(s, found)
	return r
}

func inLibBubble(t *testing.T, script func(s *shelf)) {
	t.Helper()
	dir := t.TempDir()
	inBubble(t, func(p *play) {
		store, err := filestore.Open(dir)
		require.NoError(p, err)
		p.Cleanup(func() { require.NoError(p, store.Close()) })
		claim := checkpoint.Claiming{StreamID: "s", Source: core.SourceIdentity{SystemIdentifier: "7000000000000000001", Database: "source"}}
		_, err = store.Claim(p.Context(), claim)
		require.NoError(p, err)
		require.NoError(p, store.Advance(p.Context(), checkpoint.Move{StreamID: "s", Epoch: 1, To: base}))
		script(&shelf{play: p, sink: &forgetful{instance: 1}, store: store})
	})
}

// begin starts the pipeline and returns its first stream.
func (s *shelf) begin() *waltest.Stream {
	s.Helper()
	s.run = start(s.T, pipeline.Options{
		Source: wal.Options{DSN: waltest.DSN, Slot: "s", Publications: []string{"p"}, DialFunc: s.server.Dial, NoNap: true},
		Sink:   s.sink, Store: s.store,
	})
	return s.stream(base)
}

func (s *shelf) halts(code core.HaltCode) {
	s.Helper()
	halt, ok := core.AsHalt(s.run.wait(s.T))
	require.True(s, ok)
	require.Equal(s, code, halt.Code, halt.Error())
}

func TestRowFollowsTheSinksOK(t *testing.T) {
	inLibBubble(t, func(s *shelf) {
		s.sink.answer = func(int) error { return &core.Refusal{Reason: core.ReasonUnitRejected} }
		stream := s.begin()
		s.transaction(stream, base+0x100)
		s.halts(core.HaltSinkRejected)
		require.Equal(s, base, s.row().Position)
		require.Equal(s, base, highest(stream))
	})
}

func TestMissingAnswerIsRepeatedUnderAHigherSequence(t *testing.T) {
	inLibBubble(t, func(s *shelf) {
		s.sink.answer = func(n int) error {
			if n < 3 {
				require.Equal(s, base, s.row().Position, "the row moved without an OK")
				return context.DeadlineExceeded
			}
			return nil
		}
		stream := s.begin()
		s.transaction(stream, base+0x100)
		s.pass(time.Minute)
		require.Len(s, s.sink.calls, 3)
		require.Less(s, s.sink.calls[0].Sequence, s.sink.calls[1].Sequence)
		require.Less(s, s.sink.calls[1].Sequence, s.sink.calls[2].Sequence)
		require.Equal(s, base+0x130, s.row().Position)
		require.Equal(s, base+0x130, highest(stream))
	})
}

// A new instance of the sink has forgotten who may write. Whether it is still us says the
// row, looked at once the instance is known.
func TestNewInstanceIsMetWithALookAtTheRow(t *testing.T) {
	inLibBubble(t, func(s *shelf) {
		s.sink.answer = func(n int) error {
			if n > 1 {
				return nil
			}
			s.sink.instance++
			_, err := s.store.Claim(s.Context(), checkpoint.Claiming{
				StreamID: "s", Read: s.row().Epoch, Sender: [16]byte{9}, Source: s.row().Source, SinkName: "forgetful",
			})
			require.NoError(s, err)
			return &core.Refusal{Reason: core.ReasonInstanceChanged}
		}
		stream := s.begin()
		s.transaction(stream, base+0x100)
		s.halts(core.HaltFenced)
		require.Len(s, s.sink.calls, 1, "it wrote under an epoch that was overtaken")
		require.Equal(s, base, s.row().Position)
		require.Equal(s, base, highest(stream))
	})
}

// A row that somebody else has moved is not moved on.
func TestRowThatWasMovedIsNotOverwritten(t *testing.T) {
	inLibBubble(t, func(s *shelf) {
		s.sink.answer = func(int) error {
			r := s.row()
			return s.store.Advance(s.Context(), checkpoint.Move{StreamID: "s", Epoch: r.Epoch, Sender: r.Sender, From: base, To: base + 0x120})
		}
		stream := s.begin()
		s.transaction(stream, base+0x100)
		s.halts(core.HaltStoreRegress)
		require.Equal(s, base+0x120, s.row().Position)
		require.Equal(s, base, highest(stream))
	})
}
