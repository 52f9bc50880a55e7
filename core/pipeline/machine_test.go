package pipeline

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/assembler"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
)

// rig is a machine with a script's hands: it speaks pgoutput messages to it.
type rig struct {
	t   *testing.T
	m   *Machine
	now time.Time
	age time.Duration // how long ago its transactions were committed
	xid uint32
}

const tableOID = 16400

func newRig(t *testing.T, change func(*Settings)) *rig {
	set := Settings{
		Mode:     ModeBatch,
		Delivery: Delivery{MaxTransactions: 1000, MaxSpan: maxSpanDefault},
		Limits:   core.SinkLimits{}.Resolved(),
		Large:    true,
		Claimed:  100,
	}
	if change != nil {
		change(&set)
	}
	r := &rig{t: t, now: time.Unix(1_000_000, 0)}
	m, err := NewMachine(set, assembler.New(assembler.Options{Slab: 4096}), r.now)
	require.NoError(t, err)
	r.m = m
	r.describe(core.Column{Name: "id", TypeOID: 23, TypeModifier: -1, Identity: true}, core.Column{Name: "v", TypeOID: 25, TypeModifier: -1})
	return r
}

func (r *rig) describe(columns ...core.Column) {
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindRelation, RelationOID: tableOID, Relation: &core.Relation{
		OID: tableOID, Schema: "public", Name: "t", Identity: core.IdentityDefault, Columns: columns,
	}})
}

func rawTuple(values ...string) pgoutput.Tuple {
	var raw []byte
	for _, v := range values {
		raw = append(raw, 't')
		raw = binary.BigEndian.AppendUint32(raw, uint32(len(v)))
		raw = append(raw, v...)
	}
	return pgoutput.Tuple{Columns: len(values), Raw: raw}
}

func (r *rig) begin(commit core.LSN) {
	r.xid++
	at := r.now.Add(-r.age)
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindBegin, XID: r.xid, LSN: commit, Time: at.UnixMicro() - pgoutput.Time(0).UnixMicro()})
}

func (r *rig) insert(id, v string) {
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindInsert, RelationOID: tableOID, HasNew: true, New: rawTuple(id, v)})
}

func (r *rig) commit(commit, end core.LSN) {
	at := r.now.Add(-r.age)
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindCommit, LSN: commit, EndLSN: end, Time: at.UnixMicro() - pgoutput.Time(0).UnixMicro()})
}

func (r *rig) transaction(commit, end core.LSN, v string) {
	r.begin(commit)
	r.insert("1", v)
	r.commit(commit, end)
}

func (r *rig) later(d time.Duration) {
	r.now = r.now.Add(d)
	r.m.At(r.now)
}

// next wants a unit and returns it.
func (r *rig) next() *core.Unit {
	r.t.Helper()
	w, ok := r.m.Next()
	require.True(r.t, ok, "no work")
	require.NotNil(r.t, w.Unit)
	return w.Unit
}

func (r *rig) nothing() {
	r.t.Helper()
	_, ok := r.m.Next()
	require.False(r.t, ok, "work although there should be none")
}

func (r *rig) ack(u *core.Unit) {
	r.t.Helper()
	require.NoError(r.t, r.m.Acked(core.Ack{Checkpoint: u.Checkpoint}))
}

func ends(u *core.Unit) (list []core.LSN) {
	for i := range u.Transactions {
		list = append(list, u.Transactions[i].EndLSN)
	}
	return list
}

func haltCode(t *testing.T, err error) core.HaltCode {
	t.Helper()
	h, ok := core.AsHalt(err)
	require.True(t, ok, "want a halt, got %v", err)
	return h.Code
}

func TestMachineConfirmsOnlyWhatTheSinkStored(t *testing.T) {
	r := newRig(t, nil)
	r.transaction(110, 120, "a")
	require.Equal(t, core.LSN(100), r.m.Confirmable(), "received is not durable")
	u := r.next()
	require.Equal(t, core.LSN(100), u.Expected)
	require.Equal(t, core.LSN(120), u.Checkpoint)
	require.Equal(t, core.LSN(100), r.m.Confirmable(), "delivered is not durable")
	r.ack(u)
	require.Equal(t, core.LSN(120), r.m.Confirmable())
	r.nothing()
}

func TestMachineAdjacentCommitsAreTwoTransactions(t *testing.T) {
	// A commit record that starts exactly at the position, and one that starts exactly
	// at the end of the transaction before it: both are new.
	r := newRig(t, nil)
	r.transaction(100, 120, "starts at the claimed position")
	r.transaction(120, 140, "starts at the end of the one before")
	r.later(linger)
	require.Equal(t, []core.LSN{120, 140}, ends(r.next()))
}

func TestMachineDropsWhatTheCheckpointCovers(t *testing.T) {
	r := newRig(t, nil)
	r.transaction(80, 100, "ends at the checkpoint")
	r.transaction(100, 130, "new")
	require.Equal(t, []core.LSN{130}, ends(r.next()))
	require.EqualValues(t, 1, r.m.Count().Skipped)
}

func TestMachineGrowsTheBatchWhileOneIsInFlight(t *testing.T) {
	r := newRig(t, nil)
	r.transaction(110, 120, "a")
	first := r.next()
	for i := range core.LSN(5) {
		r.transaction(130+10*i, 135+10*i, "b")
	}
	r.nothing()
	r.ack(first)
	r.later(linger)
	second := r.next()
	require.Equal(t, []core.LSN{135, 145, 155, 165, 175}, ends(second))
	require.Equal(t, first.Checkpoint, second.Expected)
}

func TestMachineLingersUnderDenseTraffic(t *testing.T) {
	r := newRig(t, nil)
	r.transaction(110, 120, "a")
	r.ack(r.next())
	r.transaction(130, 140, "b")
	r.nothing()
	require.Equal(t, r.now.Add(linger), r.m.Deadline())
	r.later(linger)
	r.ack(r.next())
}

func TestMachineLingersLongerWhileBehind(t *testing.T) {
	r := newRig(t, nil)
	r.age = time.Second
	r.transaction(110, 120, "a")
	r.ack(r.next())
	r.transaction(130, 140, "b")
	r.later(linger)
	r.nothing()
	r.later(lingerBehind)
	r.ack(r.next())
}

func TestMachineMaxDelayHoldsAnOpenBatch(t *testing.T) {
	r := newRig(t, func(s *Settings) { s.Delivery.MaxDelay = time.Second })
	r.transaction(110, 120, "a")
	r.nothing()
	require.Equal(t, r.now.Add(time.Second), r.m.Deadline())
	r.later(time.Second)
	r.ack(r.next())
}

func TestMachineBatchLimits(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*Settings)
		want   []core.LSN
	}{
		"transaction mode": {func(s *Settings) { s.Mode = ModeTransaction }, []core.LSN{120}},
		"max transactions": {func(s *Settings) { s.Delivery.MaxTransactions = 2 }, []core.LSN{120, 140}},
		"the sink's own":   {func(s *Settings) { s.Limits.TransactionsPerBatch = 3 }, []core.LSN{120, 140, 160}},
		"span of WAL":      {func(s *Settings) { s.Delivery.MaxSpan = 20 }, []core.LSN{120, 140}},
		"preferred size":   {func(s *Settings) { s.Limits.PreferredBytes = requestHeaderMax + 600 }, []core.LSN{120, 140}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, row.change)
			for i := core.LSN(0); i < 4 && r.m.WantsInput(); i++ {
				r.transaction(110+20*i, 120+20*i, strings.Repeat("x", 100))
			}
			r.later(linger)
			require.Equal(t, row.want, ends(r.next()))
		})
	}
}

func TestMachineStopsReadingWhenTheSinkIsBehind(t *testing.T) {
	r := newRig(t, func(s *Settings) { s.Limits.PreferredBytes = 2000 })
	r.transaction(110, 120, "a")
	r.next()
	read := 0
	for i := core.LSN(0); r.m.WantsInput(); i++ {
		r.transaction(200+20*i, 210+20*i, strings.Repeat("x", 500))
		read++
		require.Less(t, read, 20, "memory is not bounded")
	}
	require.Positive(t, read)
}

func TestMachineAnotherCheckpointIsABreach(t *testing.T) {
	for _, answer := range []core.LSN{0, 119, 121} {
		r := newRig(t, nil)
		r.transaction(110, 120, "a")
		r.next()
		require.Equal(t, core.HaltSinkContract, haltCode(t, r.m.Acked(core.Ack{Checkpoint: answer})))
		require.Equal(t, core.LSN(100), r.m.Confirmable())
		require.False(t, r.m.WantsInput(), "nothing moves after a halt")
		r.nothing()
	}
}

func TestMachineEmptyTransactionsMoveOnlyTheIdlePosition(t *testing.T) {
	r := newRig(t, nil)
	r.begin(110)
	r.commit(110, 120)
	r.nothing()
	require.Equal(t, core.LSN(100), r.m.Confirmable())
	r.later(idleStepInterval)
	u := r.next()
	require.Empty(t, u.Transactions)
	require.Equal(t, core.LSN(120), u.Checkpoint)
	require.Equal(t, core.LSN(100), r.m.Confirmable(), "an idle position is first stored")
	r.ack(u)
	require.Equal(t, core.LSN(120), r.m.Confirmable())
}

func TestMachineIdleSteps(t *testing.T) {
	t.Run("not before the interval", func(t *testing.T) {
		r := newRig(t, nil)
		r.m.Keepalive(500, false)
		r.nothing()
		require.Equal(t, r.now.Add(idleStepInterval), r.m.Deadline())
	})
	t.Run("at once after 16 MiB", func(t *testing.T) {
		r := newRig(t, nil)
		r.m.Keepalive(100+idleStepBytes, false)
		require.Equal(t, core.LSN(100+idleStepBytes), r.next().Checkpoint)
	})
	t.Run("at once when the server asks", func(t *testing.T) {
		r := newRig(t, nil)
		r.m.Keepalive(500, true)
		require.Equal(t, core.LSN(500), r.next().Checkpoint)
	})
	t.Run("at once when the server repeats itself", func(t *testing.T) {
		r := newRig(t, nil)
		r.m.Keepalive(500, false)
		r.m.Keepalive(500, false)
		r.nothing()
		r.m.Keepalive(500, false)
		require.Equal(t, core.LSN(500), r.next().Checkpoint)
	})
	t.Run("not for slow repeats", func(t *testing.T) {
		r := newRig(t, nil)
		for range 3 {
			r.m.Keepalive(500, false)
			r.later(idleRepeatsWithin)
		}
		r.nothing()
	})
	t.Run("never past anything received", func(t *testing.T) {
		r := newRig(t, nil)
		r.transaction(110, 120, "a")
		r.m.Keepalive(500, true)
		u := r.next()
		require.Equal(t, core.LSN(120), u.Checkpoint)
		r.m.Keepalive(600, true)
		r.nothing()
		r.ack(u)
		require.Equal(t, core.LSN(600), r.next().Checkpoint)
	})
	t.Run("not in the middle of a transaction", func(t *testing.T) {
		r := newRig(t, nil)
		r.begin(510)
		r.insert("1", "a")
		r.m.Keepalive(510, true) // the server's keepalive then carries the commit LSN
		r.later(time.Hour)
		r.nothing()
	})
	t.Run("a transaction that starts exactly at an idle position is delivered", func(t *testing.T) {
		r := newRig(t, nil)
		r.m.Keepalive(500, true)
		r.ack(r.next())
		r.transaction(500, 520, "a")
		r.later(linger)
		require.Equal(t, []core.LSN{520}, ends(r.next()))
	})
}

func TestMachineHaltsAfterEverythingBeforeIsDurable(t *testing.T) {
	for name, row := range map[string]struct {
		spoil func(*rig)
		want  core.HaltCode
	}{
		"row outside":    {func(r *rig) { r.insert("1", "x") }, core.HaltBadFraming},
		"dropped column": {func(r *rig) { r.describe(core.Column{Name: "id", TypeOID: 23, TypeModifier: -1, Identity: true}) }, core.HaltSchemaDestructive},
		"other relation": {func(r *rig) {
			r.begin(150)
			r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindInsert, RelationOID: 9, HasNew: true, New: rawTuple("1")})
		}, core.HaltUnknownRelation},
		"broken frame": {func(r *rig) { r.m.Stop(core.NewHalt(core.HaltMalformedStream, "decode", "")) }, core.HaltMalformedStream},
		"message not asked for": {func(r *rig) {
			r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindMessage, LSN: 140, Message: &pgoutput.LogicalMessage{}})
		}, core.HaltUnsupportedMessage},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.transaction(110, 120, "before")
			row.spoil(r)
			require.False(t, r.m.WantsInput())
			require.NoError(t, r.m.Halted(), "what came before is not durable yet")
			u := r.next()
			r.ack(u)
			require.Equal(t, row.want, haltCode(t, r.m.Halted()))
			require.Equal(t, core.LSN(120), r.m.Confirmable())
			r.later(time.Hour)
			r.nothing()
		})
	}
}

func TestMachineAddedColumnPasses(t *testing.T) {
	r := newRig(t, nil)
	r.describe(core.Column{Name: "id", TypeOID: 23, TypeModifier: -1, Identity: true},
		core.Column{Name: "v", TypeOID: 25, TypeModifier: -1}, core.Column{Name: "w", TypeOID: 25, TypeModifier: -1})
	require.True(t, r.m.WantsInput())
	require.NoError(t, r.m.Halted())
}
