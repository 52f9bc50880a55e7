package windows

import (
	"encoding/binary"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/assembler"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

func init() { add(anyMajor, casesInstant) }

// casesInstant is the one row that no real process can be brought to: three bounds at one
// instant. The engine's machine is given the time.
var casesInstant = []window{
	{"B3", 0, "SC, simulated time, sink-owned", "one checkpoint, MONO", boundsAtOnce(pipeline.ModeBatch)},
	{"B3", 0, "SC, simulated time, sidecar's store", "one checkpoint, MONO", boundsAtOnce(pipeline.ModeLibBatched)},
}

// boundsAtOnce fills batches of three so that the third transaction comes at the instant
// of the delay and brings the span, in every combination of the three bounds.
func boundsAtOnce(mode pipeline.Mode) func(*scene) {
	return func(s *scene) {
		for which := 1; which < 8; which++ {
			m := &instants{scene: s, mode: mode, size: which&1 != 0, delay: which&2 != 0, span: which&4 != 0}
			m.start()
			for range 5 {
				m.batch()
			}
		}
		s.seen("7 combinations, 5 batches each")
	}
}

const (
	instantStep  = 100 // WAL between two transactions' ends
	instantDelay = 50 * time.Millisecond
	instantTable = 16400
)

type instants struct {
	*scene
	mode              pipeline.Mode
	size, delay, span bool
	machine           *pipeline.Machine
	now               time.Time
	end               core.LSN
	xid               uint32
}

func (m *instants) start() {
	set := pipeline.Settings{
		Mode: m.mode, Limits: core.SinkLimits{}.Resolved(), Claimed: 1000,
		Delivery: pipeline.Delivery{MaxTransactions: 1000, MaxDelay: time.Hour, MaxSpan: 1 << 30},
	}
	if m.size {
		set.Delivery.MaxTransactions = 3
	}
	if m.delay {
		set.Delivery.MaxDelay = instantDelay
	}
	if m.span {
		set.Delivery.MaxSpan = 2 * instantStep
	}
	m.now, m.end = time.Unix(1_000_000, 0), 1000
	var err error
	m.machine, err = pipeline.NewMachine(set, assembler.New(assembler.Options{Slab: 4096}), m.now)
	require.NoError(m.T, err)
	m.machine.Receive(&pgoutput.Message{Kind: pgoutput.KindRelation, RelationOID: instantTable, Relation: &core.Relation{
		OID: instantTable, Schema: "public", Name: "t", Identity: core.IdentityDefault,
		Columns: []core.Column{{Name: "id", TypeOID: 23, TypeModifier: -1, Identity: true}},
	}})
}

// batch is three transactions, of which the third meets all bounds, and one answer.
func (m *instants) batch() {
	m.Helper()
	before := m.machine.Confirmable()
	m.transaction()
	m.transaction()
	_, early := m.machine.Next()
	require.False(m.T, early, "before any bound was reached")
	m.now = m.now.Add(instantDelay)
	m.machine.At(m.now)
	m.transaction()
	work, ok := m.machine.Next()
	require.True(m.T, ok, "no bound was seen")
	require.NotNil(m.T, work.Unit)
	require.Len(m.T, work.Unit.Transactions, 3)
	require.Equal(m.T, m.end, work.Unit.Checkpoint)
	require.Equal(m.T, before, work.Unit.Expected)
	_, again := m.machine.Next()
	require.False(m.T, again, "a second unit for one instant")
	require.NoError(m.T, m.machine.Acked(core.Ack{Checkpoint: work.Unit.Checkpoint}))
	_, again = m.machine.Next()
	require.False(m.T, again, "a second checkpoint for one instant")
	require.Greater(m.T, m.machine.Confirmable(), before, "MONO")
	require.NoError(m.T, m.machine.Halted())
}

func (m *instants) transaction() {
	m.xid++
	commit := m.end + 40
	m.end += instantStep
	at := m.now.UnixMicro() - pgoutput.Time(0).UnixMicro()
	raw := append(binary.BigEndian.AppendUint32([]byte{'t'}, 1), '1')
	m.machine.Receive(&pgoutput.Message{Kind: pgoutput.KindBegin, XID: m.xid, LSN: commit, Time: at})
	m.machine.Receive(&pgoutput.Message{
		Kind: pgoutput.KindInsert, RelationOID: instantTable, HasNew: true, New: pgoutput.Tuple{Columns: 1, Raw: raw},
	})
	m.machine.Receive(&pgoutput.Message{Kind: pgoutput.KindCommit, LSN: commit, EndLSN: m.end, Time: at})
}
