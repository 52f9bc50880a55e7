package assembler

import (
	"bytes"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/replicant-sidecar/replicant-sidecar/internal/golden"
	"github.com/stretchr/testify/require"
)

const recordings = "../pgoutput/testdata"

// simple is a transaction in plain values, comparable and owning its memory.
type simple struct {
	XID        uint32
	Commit     core.LSN
	End        core.LSN
	CommitTime time.Time
	Origin     string
	Changes    []simpleChange
}

type simpleChange struct {
	Op         string
	OldKind    core.OldKind
	Relations  []simpleRelation
	Old, New   []simpleValue
	Cascade    bool
	Restart    bool
	MessageLSN core.LSN
	Prefix     string
	Content    string
}

type simpleRelation struct {
	OID      uint32
	Name     string
	Identity byte
	Columns  string
}

type simpleValue struct {
	Kind string
	Text string
}

// Transactions of every recorded session of protocol 1 equal those of a slow reference
// over another parser. The assembler runs with little memory, odd cuts, late releases
// and frames that are overwritten as soon as it has seen them.
func TestRecordedSessionsEqualTheReference(t *testing.T) {
	all, err := golden.ReadDir(recordings)
	require.NoError(t, err)
	sessions, changes := 0, 0
	for _, r := range all {
		for i, s := range r.Sessions {
			if s.Protocol != 1 || s.Binary() {
				continue
			}
			sessions++
			t.Run(r.Name(i), func(t *testing.T) {
				want := reference(t, s)
				for _, cutEvery := range []int{0, 1, 3} {
					require.Equal(t, want, assembled(t, s, cutEvery), "cut after %d changes", cutEvery)
				}
				for _, tx := range want {
					changes += len(tx.Changes)
				}
			})
		}
	}
	require.Greater(t, sessions, 150)
	require.Greater(t, changes, 1500)
}

func assembled(t *testing.T, s golden.Session, cutEvery int) []simple {
	return assembledWith(t, s, cutEvery, Options{Slab: 512})
}

func assembledWith(t *testing.T, s golden.Session, cutEvery int, o Options) (all []simple) {
	d, a := pgoutput.NewDecoder(pgoutput.Options{Streaming: s.Streaming()}), New(o)
	defer a.Close()
	var m pgoutput.Message
	var open []simpleChange
	take := func(step Step, err error) {
		require.NoError(t, err)
		tx, _ := a.Open()
		switch {
		case step == StepChange && cutEvery > 0 && len(tx.Changes) == cutEvery:
			changes, first, mark := a.TakeChanges()
			require.EqualValues(t, len(open), first)
			open = append(open, simplify(changes)...)
			a.Release(mark)
		case step == StepCommit:
			tx, mark := a.Take()
			open = append(open, simplify(tx.Changes)...)
			require.EqualValues(t, len(open), a.Count())
			all = append(all, simple{tx.XID, tx.CommitLSN, tx.EndLSN, tx.CommitTime, tx.Origin, open})
			open = nil
			a.Release(mark)
		}
	}
	for _, recorded := range s.Messages() {
		frame := bytes.Clone(recorded)
		require.NoError(t, d.Decode(frame, &m))
		step, err := a.Push(&m)
		clear(frame)
		take(step, err)
		for a.Replaying() {
			take(a.Replay())
		}
	}
	return all
}

func simplify(changes []core.Change) (all []simpleChange) {
	for _, c := range changes {
		s := simpleChange{Op: c.Op.String(), OldKind: c.OldKind, Old: simpleRow(c.Old), New: simpleRow(c.New)}
		if c.Relation != nil {
			s.Relations = append(s.Relations, simpleOf(c.Relation))
		}
		if c.Truncate != nil {
			for _, r := range c.Truncate.Relations {
				s.Relations = append(s.Relations, simpleOf(r))
			}
			s.Cascade, s.Restart = c.Truncate.Cascade, c.Truncate.RestartIdentity
		}
		if c.Message != nil {
			s.MessageLSN, s.Prefix, s.Content = c.Message.LSN, string(c.Message.Prefix), string(c.Message.Content)
		}
		all = append(all, s)
	}
	return all
}

func simpleOf(r *core.Relation) simpleRelation {
	s := simpleRelation{OID: r.OID, Name: r.String(), Identity: byte(r.Identity)}
	for _, c := range r.Columns {
		s.Columns += c.Name + map[bool]string{true: "*,", false: ","}[c.Identity]
	}
	return s
}

func simpleRow(t core.Tuple) []simpleValue {
	if t.IsZero() {
		return nil
	}
	row := []simpleValue{}
	for _, v := range t.Values() {
		row = append(row, simpleValue{string(v.Kind), string(v.Text)})
	}
	return row
}

// reference assembles with maps and copies, from pglogrepl's messages.
func reference(t *testing.T, s golden.Session) (all []simple) {
	r := &referee{relations: map[uint32]*pglogrepl.RelationMessage{}, leaves: map[uint32]map[uint8]bool{}}
	for _, frame := range s.Messages() {
		message, err := pglogrepl.Parse(frame)
		if frame[0] == 'I' && len(frame) == 8 { // no columns: pglogrepl asks for one more byte
			message, err = pglogrepl.Parse(append(bytes.Clone(frame), 0))
		}
		require.NoError(t, err)
		r.take(message)
	}
	return r.all
}

// referee is the state of the reference.
type referee struct {
	all       []simple
	tx        simple
	relations map[uint32]*pglogrepl.RelationMessage
	// leaves notes, by the OID that rows name, the identities of the leaves they are from.
	leaves    map[uint32]map[uint8]bool
	described uint32
}

func (r *referee) row(op string, oid uint32, kind uint8, old, row *pglogrepl.TupleData) {
	if r.described != 0 && r.described != oid {
		if r.leaves[oid] == nil {
			r.leaves[oid] = map[uint8]bool{}
		}
		r.leaves[oid][r.relations[r.described].ReplicaIdentity] = true
	}
	r.described = 0
	r.tx.Changes = append(r.tx.Changes, referenceRow(op, r.relations[oid], r.leaves[oid], kind, old, row))
}

func (r *referee) take(message pglogrepl.Message) {
	switch x := message.(type) {
	case *pglogrepl.BeginMessage:
		r.tx = simple{XID: x.Xid, Commit: core.LSN(x.FinalLSN)}
	case *pglogrepl.OriginMessage:
		r.tx.Origin = x.Name
	case *pglogrepl.RelationMessage:
		r.relations[x.RelationID], r.described = x, x.RelationID
	case *pglogrepl.CommitMessage:
		r.tx.End, r.tx.CommitTime = core.LSN(x.TransactionEndLSN), x.CommitTime.UTC()
		r.all = append(r.all, r.tx)
	case *pglogrepl.InsertMessage:
		r.row("insert", x.RelationID, 0, nil, x.Tuple)
	case *pglogrepl.UpdateMessage:
		r.row("update", x.RelationID, x.OldTupleType, x.OldTuple, x.NewTuple)
	case *pglogrepl.DeleteMessage:
		r.row("delete", x.RelationID, x.OldTupleType, x.OldTuple, nil)
	case *pglogrepl.TruncateMessage:
		r.described = 0
		c := simpleChange{Op: "truncate", Cascade: x.Option&1 != 0, Restart: x.Option&2 != 0}
		for _, oid := range x.RelationIDs {
			c.Relations = append(c.Relations, referenceRelation(r.relations[oid]))
		}
		r.tx.Changes = append(r.tx.Changes, c)
	case *pglogrepl.LogicalDecodingMessage:
		if x.Transactional {
			r.tx.Changes = append(r.tx.Changes, simpleChange{Op: "message", MessageLSN: core.LSN(x.LSN), Prefix: x.Prefix, Content: string(x.Content)})
		}
	}
}

func referenceRelation(r *pglogrepl.RelationMessage) simpleRelation {
	s := simpleRelation{OID: r.RelationID, Name: r.Namespace + "." + r.RelationName, Identity: r.ReplicaIdentity}
	for _, c := range r.Columns {
		s.Columns += c.Name + map[uint8]string{1: "*,", 0: ","}[c.Flags]
	}
	return s
}

func referenceRow(op string, r *pglogrepl.RelationMessage, leaves map[uint8]bool, kind uint8, old, row *pglogrepl.TupleData) simpleChange {
	c := simpleChange{Op: op, Relations: []simpleRelation{referenceRelation(r)}}
	values := func(t *pglogrepl.TupleData) []simpleValue {
		all := []simpleValue{}
		for _, column := range t.Columns {
			all = append(all, simpleValue{string(column.DataType), string(column.Data)})
		}
		return all
	}
	if row != nil {
		c.New = values(row)
		for i := range c.New {
			if c.New[i].Kind == "u" && old != nil && old.Columns[i].DataType == 't' {
				c.New[i] = simpleValue{"t", string(old.Columns[i].Data)}
			}
		}
	}
	if kind == 0 {
		return c
	}
	c.OldKind, c.Old = core.OldFull, values(old)
	sent, keys, keysSent, nulls := len(c.Old), 0, 0, 0
	for i, v := range c.Old {
		if v.Kind == "n" {
			nulls++
		}
		if r.Columns[i].Flags == 1 {
			keys++
			if v.Kind == "t" {
				keysSent++
			}
		}
	}
	partial := leaves['d'] || leaves['i'] || leaves['n']
	if kind == 'O' && (nulls == 0 || !partial) || kind == 'K' && keys == 0 && leaves['f'] && !partial {
		return c
	}
	c.OldKind = core.OldKey
	for i := range sent {
		dropped := keys > 0 && keys == keysSent && r.Columns[i].Flags == 0
		if dropped || c.Old[i].Kind == "n" {
			c.Old[i] = simpleValue{Kind: "a"}
		}
	}
	return c
}
