package pipeline

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/assembler"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
)

// listSpill keeps blocks in memory.
type listSpill struct{ fail error }

type listFile struct {
	all    *listSpill
	blocks [][]byte
}

func (s *listSpill) Create() (assembler.SpillFile, error) { return &listFile{all: s}, nil }

func (f *listFile) Append(b []byte) error {
	f.blocks = append(f.blocks, append([]byte(nil), b...))
	return f.all.fail
}

func (f *listFile) Next() ([]byte, error) {
	if f.all.fail != nil {
		return nil, f.all.fail
	}
	if len(f.blocks) == 0 {
		return nil, io.EOF
	}
	b := f.blocks[0]
	f.blocks = f.blocks[1:]
	return b, nil
}

func (f *listFile) Close() {}

// streamRig is a rig over an assembler that spills above that many bytes.
func streamRig(t *testing.T, resident int, change func(*Settings)) (*rig, *listSpill) {
	r, spill := newRig(t, change), &listSpill{}
	m, err := NewMachine(r.m.set, assembler.New(assembler.Options{Slab: 4096, Resident: resident, Spill: spill}), r.now)
	require.NoError(t, err)
	r.m = m
	r.describe(core.Column{Name: "id", TypeOID: 23, TypeModifier: -1, Identity: true}, core.Column{Name: "v", TypeOID: 25, TypeModifier: -1})
	return r, spill
}

// raw decodes a message that stands in a block, so that it has a body.
func (r *rig) raw(xid uint32, frames ...string) {
	d := pgoutput.NewDecoder(pgoutput.Options{Streaming: true})
	var m pgoutput.Message
	require.NoError(r.t, d.Decode([]byte("S"+be32(xid)+"\x01"), &m))
	for _, f := range frames {
		require.NoError(r.t, d.Decode([]byte(f[:1]+be32(xid)+f[1:]), &m))
		r.m.Receive(&m)
	}
}

func be32(n uint32) string {
	return string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// streamRows sends a block of rows of one large value each.
func (r *rig) streamRows(xid uint32, first bool, from, n, size int) {
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindStreamStart, XID: xid, First: first})
	frames := []string{"R" + be32(tableOID) + "public\x00t\x00d\x00\x02\x01id\x00" + be32(23) + be32(1<<32-1) + "\x00v\x00" + be32(25) + be32(1<<32-1)}
	for i := range n {
		id := fmt.Sprint(from + i)
		frames = append(frames, "I"+be32(tableOID)+"N\x00\x02t"+be32(uint32(len(id)))+id+"t"+be32(uint32(size))+strings.Repeat("x", size))
	}
	r.raw(xid, frames...)
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindStreamStop})
}

func (r *rig) streamCommit(xid uint32, commit, end core.LSN) {
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindStreamCommit, XID: xid, LSN: commit, EndLSN: end})
}

func TestMachineStreamedTransactionIsAnOrdinaryOne(t *testing.T) {
	for _, resident := range []int{1 << 20, 1} {
		r, _ := streamRig(t, resident, nil)
		r.streamRows(7, true, 1, 3, 10)
		r.streamRows(9, true, 1, 1, 10)
		require.True(t, r.m.WantsInput())
		r.nothing()
		r.transaction(110, 120, "between")
		u := r.next()
		require.Equal(t, []core.LSN{120}, ends(u))
		r.streamRows(7, false, 4, 2, 10)
		r.ack(u)
		r.streamCommit(7, 200, 210)
		r.transaction(220, 230, "behind")
		r.later(linger)
		u = r.next()
		require.Equal(t, []core.LSN{210, 230}, ends(u))
		require.Len(t, u.Transactions[0].Changes, 5)
		require.EqualValues(t, 7, u.Transactions[0].XID)
		require.EqualValues(t, 1, r.m.Count().Streamed)
		r.ack(u)
		require.Equal(t, core.LSN(230), r.m.Confirmable())
	}
}

// One that does not fit goes in pieces, and no more of it is in memory than of another
// one; meanwhile nothing is read.
func TestMachineLargeStreamedTransaction(t *testing.T) {
	const rows = 200
	for _, resident := range []int{1 << 20, 1, 20_000} {
		r, _ := streamRig(t, resident, func(s *Settings) { s.Limits.RequestBytes, s.Limits.PreferredBytes = 8000, 4000 })
		r.transaction(110, 120, "small one before")
		for i := range rows / 10 {
			r.streamRows(7, i == 0, i*10, 10, 500)
		}
		r.streamCommit(7, 200, 230)
		require.False(t, r.m.WantsInput())
		require.True(t, r.m.Replaying())
		u := r.next()
		require.Equal(t, []core.LSN{120}, ends(u), "what came before is durable first")
		r.ack(u)
		w, ok := r.m.Next()
		require.True(t, ok)
		require.NotNil(t, w.Large)
		require.Equal(t, core.LSN(200), w.Large.CommitLSN)
		got := 0
		for committed := false; !committed; {
			frame, ok := r.m.Part()
			require.True(t, ok)
			for i := range frame.Changes {
				require.Equal(t, fmt.Sprint(got), string(frame.Changes[i].New.Value(0).Text))
				got++
			}
			require.LessOrEqual(t, len(frame.Changes), 16)
			committed = frame.Commit != nil
			if committed {
				require.EqualValues(t, rows, frame.Commit.ChangeCount)
			}
			require.NoError(t, r.m.PartTaken())
			r.m.Replay()
			require.LessOrEqual(t, len(r.m.flight.large.parts), largePartsMax+2, "the rest and the commit frame come together")
		}
		require.Equal(t, rows, got)
		require.NoError(t, r.m.Acked(core.Ack{Checkpoint: 230}))
		require.True(t, r.m.WantsInput())
		r.transaction(300, 310, "behind")
		r.later(linger)
		r.ack(r.next())
	}
}

// A keepalive between blocks says that all that commits below it was sent, and the slot
// keeps what is in progress: it may be stored. One inside a block says nothing.
func TestMachineIdleBetweenBlocks(t *testing.T) {
	r, _ := streamRig(t, 1<<20, nil)
	r.streamRows(7, true, 1, 1, 10)
	r.m.Keepalive(150, true)
	u := r.next()
	require.Empty(t, u.Transactions)
	require.Equal(t, core.LSN(150), u.Checkpoint)
	r.ack(u)
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindStreamStart, XID: 7})
	r.m.Keepalive(160, true)
	r.nothing()
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindStreamStop})
	r.streamCommit(7, 170, 180)
	require.Equal(t, core.LSN(180), r.next().Checkpoint)
}

// An empty streamed transaction moves the position only once all before it is durable.
func TestMachineEmptyStreamedTransaction(t *testing.T) {
	r, _ := streamRig(t, 1<<20, nil)
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindStreamStart, XID: 7, First: true})
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindStreamStop})
	r.transaction(110, 120, "open batch")
	r.streamCommit(7, 130, 140)
	u := r.next()
	require.Equal(t, core.LSN(120), u.Checkpoint)
	r.nothing()
	r.ack(u)
	r.nothing()
	r.later(idleStepInterval)
	require.Equal(t, core.LSN(140), r.next().Checkpoint)
}

// What was received before a spill that fails is delivered, then the machine halts; also
// when the transaction is half on its way.
func TestMachineSpillFaults(t *testing.T) {
	full := core.NewHalt(core.HaltSpillFailed, "spill", "no space left on device")
	t.Run("writing", func(t *testing.T) {
		r, spill := streamRig(t, 1000, nil)
		r.transaction(110, 120, "a")
		spill.fail = full
		r.streamRows(7, true, 1, 10, 500)
		require.False(t, r.m.WantsInput())
		require.NoError(t, r.m.Halted())
		r.ack(r.next())
		require.Equal(t, core.HaltSpillFailed, haltCode(t, r.m.Halted()))
		require.Equal(t, core.LSN(120), r.m.Confirmable())
	})
	t.Run("reading", func(t *testing.T) {
		r, spill := streamRig(t, 30_000, func(s *Settings) { s.Limits.RequestBytes, s.Limits.PreferredBytes = 8000, 4000 })
		r.transaction(110, 120, "a")
		for i := range 40 {
			r.streamRows(7, i == 0, i*10, 10, 500)
		}
		r.streamCommit(7, 200, 230)
		r.ack(r.next())
		w, ok := r.m.Next()
		require.True(t, ok)
		require.NotNil(t, w.Large)
		require.True(t, r.m.Unfinished())
		spill.fail = full
		for r.m.Halted() == nil {
			_, ok := r.m.Part()
			require.True(t, ok)
			require.NoError(t, r.m.PartTaken())
			r.m.Replay()
		}
		require.Equal(t, core.HaltSpillFailed, haltCode(t, r.m.Halted()))
		require.Equal(t, core.LSN(120), r.m.Confirmable())
	})
}

// A transaction that is being taken in pieces and turns out to be broken does not wait for
// an end that never comes.
func TestMachineHaltsInALargeTransaction(t *testing.T) {
	r := newRig(t, func(s *Settings) { s.Limits.RequestBytes, s.Limits.PreferredBytes = 8000, 4000 })
	r.transaction(110, 120, "a")
	r.begin(200)
	for r.m.WantsInput() {
		r.insert("1", strings.Repeat("x", 500))
	}
	r.begin(300)
	require.NoError(t, r.m.Halted(), "what came before is delivered")
	r.ack(r.next())
	require.Equal(t, core.HaltBadFraming, haltCode(t, r.m.Halted()))

	r = newRig(t, func(s *Settings) { s.Limits.RequestBytes, s.Limits.PreferredBytes = 8000, 4000 })
	r.begin(200)
	for r.m.WantsInput() {
		r.insert("1", strings.Repeat("x", 500))
	}
	_, ok := r.m.Next()
	require.True(t, ok)
	r.begin(300)
	require.Equal(t, core.HaltBadFraming, haltCode(t, r.m.Halted()))
}

func TestMachineSchemaChangeOfAStream(t *testing.T) {
	r, _ := streamRig(t, 1<<20, func(s *Settings) { s.SchemaChanges = true })
	r.transaction(110, 120, "a")
	r.ack(r.next())
	r.streamRows(7, true, 1, 1, 10)
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindStreamStart, XID: 7})
	r.raw(7, "R"+be32(tableOID)+"public\x00t\x00d\x00\x01\x01id\x00"+be32(23)+be32(1<<32-1), "I"+be32(tableOID)+"N\x00\x01t"+be32(1)+"9")
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindStreamStop})
	r.nothing()
	r.streamCommit(7, 200, 210)
	w, ok := r.m.Next()
	require.True(t, ok)
	require.Equal(t, "columns_dropped", w.Schema.Change.What)
	require.NoError(t, r.m.Acked(core.Ack{}))
	r.later(linger)
	require.Equal(t, core.LSN(210), r.next().Checkpoint)
}

// A description that is put back in force behind a stream is told before the next rows,
// though an empty transaction comes first.
func TestMachineSchemaChangeBehindAStream(t *testing.T) {
	r, _ := streamRig(t, 1<<20, func(s *Settings) { s.SchemaChanges = true })
	r.streamRows(7, true, 1, 1, 10)
	r.describe(core.Column{Name: "id", TypeOID: 23, TypeModifier: -1, Identity: true})
	r.begin(110)
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindInsert, RelationOID: tableOID, HasNew: true, New: rawTuple("5")})
	r.commit(110, 120)
	r.ack(r.next())
	r.streamCommit(7, 200, 210)
	told := func(what string) {
		t.Helper()
		w, ok := r.m.Next()
		require.True(t, ok)
		require.NotNil(t, w.Schema)
		require.Equal(t, what, w.Schema.Change.What)
		require.NoError(t, r.m.Acked(core.Ack{}))
	}
	told("columns_added")
	r.later(linger)
	r.ack(r.next())
	require.False(t, r.m.WantsInput())
	r.m.Replay()
	require.True(t, r.m.WantsInput())
	r.begin(220)
	r.commit(220, 230)
	r.begin(240)
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindInsert, RelationOID: tableOID, HasNew: true, New: rawTuple("6")})
	r.commit(240, 250)
	told("columns_dropped")
	r.later(linger)
	require.Equal(t, []core.LSN{250}, ends(r.next()))
}

func TestRelationsToAskAbout(t *testing.T) {
	relation := func(xid, sub uint32, oid uint32, columns ...string) *pgoutput.Message {
		r := &core.Relation{OID: oid, Name: "t"}
		for _, c := range columns {
			r.Columns = append(r.Columns, core.Column{Name: c})
		}
		return &pgoutput.Message{Kind: pgoutput.KindRelation, XID: xid, SubXID: sub, RelationOID: oid, Relation: r}
	}
	d := described{}
	plain := relation(0, 0, 1, "a")
	require.Equal(t, []*core.Relation{plain.Relation}, d.due(plain))
	in := relation(7, 8, 1, "a")
	require.Empty(t, d.due(in))
	require.Empty(t, d.due(relation(7, 7, 1, "a")))
	require.Empty(t, d.due(relation(7, 9, 1, "a", "b")))
	require.Empty(t, d.due(relation(7, 9, 2, "a")))
	require.Empty(t, d.due(relation(9, 9, 2, "a")))
	require.Empty(t, d.due(&pgoutput.Message{Kind: pgoutput.KindStreamAbort, XID: 7, SubXID: 8}))
	end := &pgoutput.Message{Kind: pgoutput.KindStreamCommit, XID: 7}
	require.Len(t, d.due(end), 3)
	require.Len(t, end.Relations, 3)
	require.Equal(t, in.Relation, end.Relations[0])
	require.NotSame(t, in.Relation, end.Relations[0])
	require.NotSame(t, &in.Relation.Columns[0], &end.Relations[0].Columns[0], "the first is being read by others")
	require.Len(t, d, 1)
	require.Empty(t, d.due(&pgoutput.Message{Kind: pgoutput.KindStreamAbort, XID: 9, SubXID: 9}))
	require.Empty(t, d)
	for i := range uint32(describedMax + 10) {
		d.due(relation(7, 7, i, "a"))
	}
	require.Len(t, d[7], describedMax)
	d.due(&pgoutput.Message{Kind: pgoutput.KindStreamStart, XID: 7, First: true})
	require.Empty(t, d)
}
