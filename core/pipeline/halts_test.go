package pipeline_test

import (
	"context"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// Halts that no healthy Postgres gives reason for, or none within a test's time: against
// a scripted walsender, in simulated time.

// trouble is one way to a halt.
type trouble struct {
	want core.HaltCode
	// spoil changes the world before the start.
	spoil func(p *play, o *pipeline.Options)
	// act does what leads to the halt once the stream runs; nil where there is none.
	act func(p *play, stream *waltest.Stream)
}

// troubles of a source.
var sourceTroubles = map[string]trouble{
	"a server before 14": {core.HaltServerUnsupported, func(p *play, _ *pipeline.Options) {
		p.server.Change(func(s *waltest.State) { s.Version = "13.9" })
	}, nil},
	"a standby before 16": {core.HaltServerUnsupported, func(p *play, _ *pipeline.Options) {
		p.server.Change(func(s *waltest.State) { s.Version, s.InRecovery = "15.2", true })
	}, nil},
	"a pooler between us and the server": {core.HaltSourcePooler, func(p *play, _ *pipeline.Options) {
		p.server.Change(func(s *waltest.State) { s.Unset = "DateStyle" })
	}, nil},
	"a database that does not exist": {core.HaltSourceRefused, func(p *play, _ *pipeline.Options) {
		p.server.Change(func(s *waltest.State) {
			s.RefuseStartup = func(map[string]string) *waltest.Error { return &waltest.Error{Code: "3D000", Message: secret} }
		})
	}, nil},
	"a wrong password": {core.HaltSourceRights, func(p *play, _ *pipeline.Options) {
		p.server.Change(func(s *waltest.State) {
			s.RefuseStartup = func(map[string]string) *waltest.Error { return &waltest.Error{Code: "28P01", Message: secret} }
		})
	}, nil},
	"no slot left": {core.HaltSlotsExhausted, func(p *play, _ *pipeline.Options) {
		p.sink.SetStored(core.Checkpoint{})
		p.server.Change(func(s *waltest.State) {
			s.Slot, s.Refuse = nil, refuse("CREATE_REPLICATION_SLOT", "53400")
		})
	}, nil},
	"no walsender left": {core.HaltSlotsExhausted, func(p *play, _ *pipeline.Options) {
		p.server.Change(func(s *waltest.State) {
			s.RefuseStartup = func(parameters map[string]string) *waltest.Error {
				if parameters["replication"] == "" {
					return nil
				}
				return &waltest.Error{Code: "53300", Message: secret}
			}
		})
	}, nil},
	"a synced slot on a standby": {core.HaltSlotSynced, func(p *play, _ *pipeline.Options) {
		p.server.Change(func(s *waltest.State) { s.InRecovery, s.Slot.Synced = true, true })
	}, nil},
	"a slot that goes between look and start": {core.HaltSlotMissing, func(p *play, _ *pipeline.Options) {
		p.server.Change(func(s *waltest.State) { s.Refuse = refuse("START_REPLICATION", "42704") })
	}, nil},
	"a publication that was not there then": {core.HaltPublicationMissing, nil, func(p *play, stream *waltest.Stream) {
		require.NoError(p, stream.Fail(waltest.Error{Severity: "ERROR", Code: "42704", Message: `publication "` + secret + `"`, Routine: "get_publication_oid"}))
	}},
}

// streamTroubles are frames that no Postgres sends.
var streamTroubles = map[string]trouble{
	"a commit without a begin": {core.HaltBadFraming, nil, func(p *play, stream *waltest.Stream) {
		p.transaction(stream, base+0x100)
		p.frames(stream, 3) // the commit of it once more
	}},
	"a row of a table that was not described": {core.HaltUnknownRelation, nil, func(p *play, stream *waltest.Stream) {
		p.frames(stream, 0, 2)
	}},
	"a frame that is cut short": {core.HaltMalformedStream, nil, func(p *play, stream *waltest.Stream) {
		require.NoError(p, stream.Data(uint64(base+0x100), []byte("B\x00\x00")))
	}},
	"a message of a later protocol": {core.HaltUnsupportedMessage, nil, func(p *play, stream *waltest.Stream) {
		require.NoError(p, stream.Data(uint64(base+0x100), []byte("~"+secret)))
	}},
}

func refuse(command, code string) func(string) *waltest.Error {
	return func(query string) *waltest.Error {
		if strings.HasPrefix(query, command) {
			return &waltest.Error{Code: code, Message: secret}
		}
		return nil
	}
}

// frames sends single frames of a transaction: 0 begin, 1 relation, 2 insert, 3 commit.
func (p *play) frames(stream *waltest.Stream, which ...int) {
	p.Helper()
	all := transactionFrames(base + 0x200)
	for _, i := range which {
		require.NoError(p, stream.Data(uint64(base+0x200), all[i]))
	}
}

func TestSourceTroublesHalt(t *testing.T) { eachTrouble(t, sourceTroubles) }
func TestStreamTroublesHalt(t *testing.T) { eachTrouble(t, streamTroubles) }
func TestSinkTroublesHalt(t *testing.T)   { eachTrouble(t, sinkTroubles) }

func eachTrouble(t *testing.T, list map[string]trouble) {
	t.Helper()
	for name, row := range list {
		t.Run(name, func(t *testing.T) { inBubble(t, func(p *play) { p.endsIn(row) }) })
	}
}

// endsIn runs a pipeline into its halt and looks at what the halt leaves: an explanation
// and its exit code, no foreign text, no connection, no file, nobody who is blocked. The
// bubble itself sees to it that no goroutine stays.
func (p *play) endsIn(row trouble) {
	wire := &dialer{server: p.server}
	o := pipeline.Options{
		Source: wal.Options{DSN: waltest.DSN, Slot: "s", Publications: []string{"p"}, DialFunc: wire.dial, NoNap: true, Streaming: true},
		Sink:   p.sink, GoForwardOnly: true, Spill: pipeline.Spilling{Dir: p.TempDir()},
	}
	if row.spoil != nil {
		row.spoil(p, &o)
	}
	p.run = start(p.T, o)
	stream := (*waltest.Stream)(nil)
	if row.act != nil {
		stream = p.stream(base)
		p.pass(time.Second)
		require.Equal(p, pipeline.StateStreaming, p.run.Status().State)
		row.act(p, stream)
	}
	var err error
	select {
	case err = <-p.run.done:
		p.run.done <- err
	case <-time.After(24 * time.Hour):
		require.FailNow(p, "no halt", "state %s: %s", p.run.Status().State, p.run.Status().Reason)
	}
	halt, ok := core.AsHalt(err)
	require.True(p, ok, "%v", err)
	require.Equal(p, row.want, halt.Code, halt.Error())
	text, known := core.Explain(halt.Code)
	require.True(p, known)
	require.Equal(p, text.Exit, core.ExitCode(err))
	status := p.run.Status()
	require.Equal(p, pipeline.StateHalted, status.State)
	require.Equal(p, halt, status.LastHalt)
	require.NotContains(p, err.Error()+status.Reason+status.LastError, secret)

	p.run.Drain() // who still waits for it is not blocked
	require.Zero(p, wire.open.Load(), "connections are left open")
	require.NoError(p, filepath.WalkDir(o.Spill.Dir, func(_ string, entry fs.DirEntry, err error) error {
		require.False(p, err == nil && entry.Type().IsRegular() && entry.Name() != "lock", "a file is left")
		return err
	}))
	stored, dialled := p.sink.Stored(), wire.dialled.Load()
	p.pass(24 * time.Hour)
	require.Equal(p, stored, p.sink.Stored())
	require.Equal(p, dialled, wire.dialled.Load(), "it goes on after the halt")
	if stream != nil {
		require.LessOrEqual(p, highest(stream), p.sink.Stored().Position)
	}
}

// dialer counts the connections to the server.
type dialer struct {
	server        *waltest.Server
	open, dialled atomic.Int64
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.server.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	d.dialled.Add(1)
	return &counted{Conn: conn, closed: func() { d.open.Add(-1) }}, nil
}

// counted is a connection whose first Close is told.
type counted struct {
	net.Conn
	once   atomic.Bool
	closed func()
}

func (c *counted) Close() error {
	if !c.once.Swap(true) {
		c.closed()
	}
	return c.Conn.Close()
}

// sinkTroubles are what a sink does, or does not do.
var sinkTroubles = map[string]trouble{
	"no sink ever": {core.HaltSinkUnavailable, func(p *play, o *pipeline.Options) {
		o.Sink, o.SinkWait = absent{p.sink}, time.Minute
	}, nil},
	"credentials that are refused": {core.HaltSinkUnauthorized, func(p *play, o *pipeline.Options) {
		p.sink.Before = func(core.Call, core.LSN) error { return unauthorized("HandleBatch") }
	}, oneTransaction},
	"credentials that are refused from the start": {core.HaltSinkUnauthorized, func(p *play, o *pipeline.Options) {
		o.Sink = &mute{p.sink.Memory, unauthorized("Checkpoint")}
	}, nil},
	"a checkpoint that cannot be read": {core.HaltCheckpointUnreadable, func(p *play, o *pipeline.Options) {
		o.Sink = &mute{p.sink.Memory, &core.Refusal{Reason: core.ReasonUnitRejected, Text: secret}}
	}, nil},
	"a position that is stored and never told": {core.HaltSinkContract, func(p *play, o *pipeline.Options) {
		o.Sink = amnesiac{p.sink}
	}, nil},
	"the source's identity is vetoed": {core.HaltIdentityRejected, func(p *play, o *pipeline.Options) {
		o.Sink = vetoing(p.sink, core.CapSessionIdentity, &core.Refusal{Reason: core.ReasonIdentityRejected, Text: secret})
	}, nil},
	"the slot's origin is vetoed": {core.HaltOriginRejected, func(p *play, o *pipeline.Options) {
		o.Sink = vetoing(p.sink, core.CapSlotOrigin, &core.Refusal{Reason: core.ReasonOriginRejected, Text: secret})
	}, nil},
	"batches asked for and not offered": {core.HaltBatchUnsupported, func(p *play, o *pipeline.Options) {
		p.sink.Caps.Set &^= core.NewCapabilitySet(core.CapBatch)
		o.Delivery.Mode = pipeline.ModeBatch
	}, nil},
	"a sink that panics": {core.HaltPanic, func(p *play, _ *pipeline.Options) {
		p.sink.Before = func(core.Call, core.LSN) error { panic(secret) }
	}, oneTransaction},
}

func unauthorized(call string) error {
	return &core.SinkError{Class: core.ClassUnauthorized, Call: call, Code: "UNAUTHENTICATED", Detail: secret}
}

func oneTransaction(p *play, stream *waltest.Stream) { p.transaction(stream, base+0x100) }

// absent answers nothing.
type absent struct{ *asked }

func (absent) Capabilities(context.Context) (core.Capabilities, error) {
	return core.Capabilities{}, &core.SinkError{Class: core.ClassAway, Call: "GetCapabilities", NeverSent: true}
}

// mute answers every Checkpoint with an error.
type mute struct {
	*sinktest.Memory
	err error
}

func (m *mute) Checkpoint(context.Context, core.CheckpointRequest) (core.Checkpoint, error) {
	return core.Checkpoint{}, m.err
}

// amnesiac tells its epoch and never a position.
type amnesiac struct{ *asked }

func (f amnesiac) Checkpoint(ctx context.Context, r core.CheckpointRequest) (core.Checkpoint, error) {
	stored, err := f.asked.Checkpoint(ctx, r)
	stored.Position = 0
	return stored, err
}

// veto refuses what it is asked before a stream begins.
type veto struct {
	*asked
	err error
}

func vetoing(sink *asked, c core.Capability, err error) veto {
	sink.Caps.Set |= core.NewCapabilitySet(c)
	return veto{sink, err}
}

func (v veto) HandleSessionIdentity(context.Context, core.SessionIdentity) error { return v.err }
func (v veto) HandleSlotOrigin(context.Context, core.SlotOrigin) error           { return v.err }
