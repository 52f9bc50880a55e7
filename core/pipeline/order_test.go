package pipeline_test

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// The order of a session's steps, against a scripted walsender in a bubble of time.

// base is where the scripted slot and the sink stand.
const base core.LSN = 0x1000000

// asked is a memory sink whose Checkpoint is watched.
type asked struct {
	*sinktest.Memory
	before func(core.CheckpointRequest)
}

func (a *asked) Checkpoint(ctx context.Context, r core.CheckpointRequest) (core.Checkpoint, error) {
	if a.before != nil {
		a.before(r)
	}
	return a.Memory.Checkpoint(ctx, r)
}

// play is a pipeline between a scripted walsender and a memory sink.
type play struct {
	*testing.T
	server *waltest.Server
	sink   *asked
	run    *running
}

// inBubble sets a play up and runs it; begin starts the pipeline.
func inBubble(t *testing.T, script func(p *play)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := waltest.NewServer(waltest.State{Publications: []string{"p"}, Slot: slotAt(base)})
		t.Cleanup(server.Close)
		p := &play{T: t, server: server, sink: &asked{Memory: sinktest.NewMemory()}}
		p.sink.SetStored(core.Checkpoint{Position: base, Epoch: 3})
		script(p)
	})
}

func slotAt(flush core.LSN) *waltest.Slot {
	return &waltest.Slot{Plugin: "pgoutput", Type: "logical", Database: "source", WALStatus: "reserved", ConfirmedFlush: flush.String()}
}

func (p *play) begin() {
	p.run = start(p.T, pipeline.Options{
		Source: wal.Options{DSN: waltest.DSN, Slot: "s", Publications: []string{"p"}, DialFunc: p.server.Dial, NoNap: true},
		Sink:   p.sink, GoForwardOnly: true,
	})
}

// stream waits for the next START_REPLICATION, which must ask for a position.
func (p *play) stream(at core.LSN) *waltest.Stream {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), 5*time.Minute)
	defer cancel()
	stream, err := p.server.Stream(ctx)
	require.NoError(p, err, "no stream begins; the sidecar is %s: %s", p.run.Status().State, p.run.Status().Reason)
	require.Contains(p, stream.Command, " LOGICAL "+at.String()+" ")
	synctest.Wait()
	return stream
}

// pass lets time pass and everybody act.
func (p *play) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// highest is the highest position that a stream was told.
func highest(stream *waltest.Stream) (at core.LSN) {
	for _, status := range stream.Statuses() {
		at = max(at, core.LSN(status.Flush))
	}
	return at
}

// transaction sends one insert that commits at a position and ends 0x30 behind it.
func (p *play) transaction(stream *waltest.Stream, commit core.LSN) {
	p.Helper()
	for i, message := range transactionFrames(commit) {
		at := commit
		if i == 3 {
			at += 0x30 // the frame of a commit carries its end
		}
		require.NoError(p, stream.Data(uint64(at), message))
	}
}

// transactionFrames are begin, relation, insert and commit.
func transactionFrames(commit core.LSN) [4][]byte {
	number := func(b []byte, at core.LSN) []byte { return binary.BigEndian.AppendUint64(b, uint64(at)) }
	const oid = "\x00\x00\x40\x10"
	return [4][]byte{
		append(number(number([]byte{'B'}, commit), 0), 0, 0, 0, 7),
		[]byte("R" + oid + "public\x00t\x00d\x00\x01\x01id\x00\x00\x00\x00\x17\xff\xff\xff\xff"),
		[]byte("I" + oid + "N\x00\x01t\x00\x00\x00\x011"),
		number(number(number([]byte{'C', 0}, commit), commit+0x30), 0),
	}
}

func (p *play) ends() (list []core.LSN) {
	for _, tx := range p.sink.Transactions() {
		list = append(list, tx.EndLSN)
	}
	return list
}

// Where nothing was stored yet, the consistent point of a new slot is the first position.
func TestBaseIsTheConsistentPointItself(t *testing.T) {
	inBubble(t, func(p *play) {
		p.sink.SetStored(core.Checkpoint{})
		p.server.Change(func(s *waltest.State) {
			s.Slot, s.WALEnd = nil, base.String()
			s.Reply = func(query string) ([][]string, bool) {
				if strings.HasPrefix(query, "CREATE_REPLICATION_SLOT") {
					p.server.Change(func(s *waltest.State) { s.Slot = slotAt(base) })
				}
				return nil, false
			}
		})
		p.begin()
		stream := p.stream(base)
		require.Equal(p, base, p.sink.Stored().Position)
		p.transaction(stream, base) // the first commit record may start exactly there
		p.pass(10 * time.Second)
		require.Equal(p, []core.LSN{base + 0x30}, p.ends())
	})
}

// A slot can be taken between our look at it and START_REPLICATION. Whoever does not get
// it has claimed nothing.
func TestBusySlotIsNotClaimed(t *testing.T) {
	inBubble(t, func(p *play) {
		p.server.Change(func(s *waltest.State) {
			s.Refuse = func(query string) *waltest.Error {
				if strings.HasPrefix(query, "START_REPLICATION") {
					return &waltest.Error{Code: "55006", Message: "active"}
				}
				return nil
			}
		})
		p.begin()
		p.pass(time.Minute)
		require.Equal(p, pipeline.StateStandby, p.run.Status().State)
		require.EqualValues(p, 3, p.sink.Stored().Epoch)
		p.server.Change(func(s *waltest.State) { s.Refuse = nil })
		p.stream(base)
		p.pass(time.Second)
		require.EqualValues(p, 4, p.sink.Stored().Epoch)
	})
}

// A busy owner moves checkpoint and slot between our two looks. Only what is read once the
// slot is ours can accuse anybody.
func TestSlotAheadIsJudgedOnceTheSlotIsOurs(t *testing.T) {
	inBubble(t, func(p *play) {
		p.sink.SetStored(core.Checkpoint{Position: base - 0x100, Epoch: 3})
		p.sink.before = func(r core.CheckpointRequest) {
			if r.Claim != nil { // what the owner had stored before the slot was ours
				p.sink.SetStored(core.Checkpoint{Position: base, Epoch: 3})
			}
		}
		p.begin()
		stream := p.stream(base - 0x100)
		p.pass(10 * time.Second)
		require.Equal(p, pipeline.StateStreaming, p.run.Status().State, "%v", p.run.Status().LastHalt)
		p.transaction(stream, base-0x80) // ends below the claimed position
		p.transaction(stream, base+0x100)
		p.pass(10 * time.Second)
		require.Equal(p, []core.LSN{base + 0x130}, p.ends())
	})
}

func TestSlotAheadHalts(t *testing.T) {
	inBubble(t, func(p *play) {
		p.sink.before = func(r core.CheckpointRequest) {
			if r.Claim != nil { // somebody moves the slot before it is ours
				p.server.Change(func(s *waltest.State) { s.Slot = slotAt(base + 1) })
			}
		}
		p.begin()
		stream := p.stream(base)
		p.pass(time.Minute)
		halt, ok := core.AsHalt(p.run.wait(p.T))
		require.True(p, ok)
		require.Equal(p, core.HaltSlotAhead, halt.Code)
		require.LessOrEqual(p, highest(stream), base)
	})
}

// A sink that goes back between read and claim needs what lies below the stream's start.
func TestClaimBelowTheStartBeginsAgain(t *testing.T) {
	inBubble(t, func(p *play) {
		const lower = base - 0x1000
		p.server.Change(func(s *waltest.State) { s.Slot = slotAt(lower) })
		p.sink.before = func(r core.CheckpointRequest) {
			if r.Claim != nil && r.Claim.Epoch == 4 {
				p.sink.SetStored(core.Checkpoint{Position: lower, Epoch: 3})
			}
		}
		p.begin()
		p.stream(base)
		again := p.stream(lower)
		p.transaction(again, lower+0x100)
		p.pass(10 * time.Second)
		require.Equal(p, []core.LSN{lower + 0x130}, p.ends())
	})
}

func TestIdlePositionIsStoredBeforeItIsTold(t *testing.T) {
	inBubble(t, func(p *play) {
		stored := make(chan struct{})
		p.sink.Before = func(_ core.Call, at core.LSN) error {
			<-stored
			return nil
		}
		p.begin()
		stream := p.stream(base)
		require.NoError(p, stream.Keepalive(uint64(base+0x500), true))
		p.pass(30 * time.Second)
		require.Equal(p, base, highest(stream), "told before the sink has it")
		close(stored)
		p.pass(0)
		require.Equal(p, base+0x500, p.sink.Stored().Position)
		require.Equal(p, base+0x500, highest(stream), "told at once: the server may wait for it")
	})
}

// An answer that is missing says neither done nor not done. The sink is asked, and Postgres
// is told nothing meanwhile.
func TestMissingAnswerIsNoAnswer(t *testing.T) {
	for name, done := range map[string]bool{"done": true, "not done": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(p *play) {
				lost := func(call core.Call, _ core.LSN) error {
					if call.Epoch == 4 { // the first session
						return context.DeadlineExceeded
					}
					return nil
				}
				from := base
				if p.sink.Before = lost; done {
					p.sink.Before, p.sink.After, from = nil, lost, base+0x130
				}
				p.begin()
				stream := p.stream(base)
				p.transaction(stream, base+0x100)
				again := p.stream(from)
				require.Equal(p, base, highest(stream))
				if !done {
					p.transaction(again, base+0x100)
				}
				p.pass(10 * time.Second)
				require.Equal(p, []core.LSN{base + 0x130}, p.ends())
				require.Equal(p, base+0x130, highest(again))
			})
		})
	}
}

// An overtaken sidecar writes nothing and stops.
func TestOvertakenWriterIsFenced(t *testing.T) {
	inBubble(t, func(p *play) {
		p.begin()
		stream := p.stream(base)
		p.pass(time.Second)
		_, err := p.sink.Memory.Checkpoint(p.Context(), core.CheckpointRequest{Claim: &core.Claim{Epoch: 9, SenderID: [16]byte{9}}})
		require.NoError(p, err)
		p.transaction(stream, base+0x100)
		halt, ok := core.AsHalt(p.run.wait(p.T))
		require.True(p, ok)
		require.Equal(p, core.HaltFenced, halt.Code)
		require.Empty(p, p.ends())
		require.Equal(p, base, highest(stream))
	})
}

// A sink that was restored under a running sidecar is below what the next unit expects:
// what lies between is fetched again, and nothing is left out.
func TestSinkThatWentBackGetsWhatItLost(t *testing.T) {
	inBubble(t, func(p *play) {
		p.begin()
		stream := p.stream(base)
		p.transaction(stream, base+0x100)
		p.pass(time.Second)
		require.Equal(p, []core.LSN{base + 0x130}, p.ends())
		p.sink.SetStored(core.Checkpoint{Position: base, Epoch: 4})
		p.transaction(stream, base+0x200)
		again := p.stream(base)
		p.transaction(again, base+0x100)
		p.transaction(again, base+0x200)
		p.pass(10 * time.Second)
		require.Equal(p, []core.LSN{base + 0x130, base + 0x130, base + 0x230}, p.ends())
		require.EqualValues(p, 1, p.run.Status().Rewound)
	})
}

// A clean stop leaves open what is in doubt, and tells Postgres nothing of it.
func TestDrainConfirmsNothingInDoubt(t *testing.T) {
	inBubble(t, func(p *play) {
		answer := make(chan error)
		p.sink.Before = func(core.Call, core.LSN) error { return <-answer }
		p.begin()
		stream := p.stream(base)
		p.transaction(stream, base+0x100)
		p.pass(time.Second)
		p.run.Drain()
		p.pass(time.Second)
		require.Equal(p, pipeline.StateDraining, p.run.Status().State, "the unit in flight is waited for")
		answer <- context.DeadlineExceeded
		left := p.run.wait(p.T)
		require.ErrorIs(p, left, pipeline.ErrLeftOpen)
		require.ErrorContains(p, left, (base + 0x130).String(), "it says which unit")
		require.NotEmpty(p, stream.Statuses())
		require.Equal(p, base, highest(stream))
	})
}
