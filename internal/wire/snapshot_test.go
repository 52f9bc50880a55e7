package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// drawSnapshot is any unit that the contract allows.
func drawSnapshot(t *rapid.T) *core.SnapshotUnit {
	u := &core.SnapshotUnit{
		Call: drawCall(t), Generation: rapid.Uint64Range(1, 1<<63).Draw(t, "generation"),
		BackfillComplete: rapid.Bool().Draw(t, "complete"),
	}
	copy(u.RunID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "run"))
	if rapid.Bool().Draw(t, "has expected") {
		u.Expected = drawLSN(t, "expected")
	}
	if rapid.Bool().Draw(t, "has lsn") {
		u.LSN = drawLSN(t, "lsn")
	}
	if rapid.Bool().Draw(t, "has token") {
		u.Token = drawBytes(t, "token")
	}
	if !rapid.Bool().Draw(t, "has relation") {
		return u
	}
	u.Relation = drawRelation(t)
	if u.First = rapid.Bool().Draw(t, "first"); u.First {
		u.Reset = core.SnapshotReset(rapid.IntRange(1, 2).Draw(t, "reset"))
	}
	if u.Last = rapid.Bool().Draw(t, "last"); u.Last {
		u.Sweep = rapid.Bool().Draw(t, "sweep")
	}
	for range rapid.IntRange(0, 6).Draw(t, "rows") {
		values := make([]core.Value, len(u.Relation.Columns))
		for i := range values {
			values[i].Kind = rapid.SampledFrom([]core.ValueKind{'t', 't', 'n', 'a'}).Draw(t, "kind")
			if values[i].Kind == core.ValueText {
				values[i].Text = drawBytes(t, "text")
			}
		}
		u.Rows = append(u.Rows, core.PackTuple(values...))
	}
	return u
}

// referenceSnapshot is the same conversion over the generated code alone.
func referenceSnapshot(u *core.SnapshotUnit) *sinkv1.HandleSnapshotRequest {
	m := &sinkv1.HandleSnapshotRequest{
		Context: referenceRequest(&core.Unit{Call: u.Call}).GetContext(),
		Unit: &sinkv1.SnapshotUnit{
			SnapshotLsn: uint64(u.LSN), RunId: u.RunID[:], Generation: u.Generation,
			FirstForTable: u.First, Reset_: sinkv1.SnapshotReset(u.Reset), LastForTable: u.Last, Sweep: u.Sweep,
			ProgressToken: u.Token, BackfillComplete: u.BackfillComplete,
		},
	}
	if u.Expected != 0 {
		m.ExpectedCheckpoint = proto.Uint64(uint64(u.Expected))
	}
	if u.Relation != nil {
		m.Unit.Relation = referenceRelation(u.Relation)
	}
	for _, row := range u.Rows {
		m.Unit.Rows = append(m.Unit.Rows, referenceRow(row))
	}
	return m
}

func sameSnapshot(t require.TestingT, want, got *core.SnapshotUnit) {
	w, g := *want, *got
	require.Equal(t, w.Token == nil, g.Token == nil)
	require.Equal(t, string(w.Token), string(g.Token))
	require.Len(t, g.Rows, len(w.Rows))
	for i := range w.Rows {
		sameTuple(t, w.Rows[i], g.Rows[i])
	}
	w.Rows, g.Rows, w.Token, g.Token = nil, nil, nil, nil
	require.Equal(t, w, g)
}

// The bytes written by hand are those of the generated code, and the decoder reads the
// unit from them. One encoder and one decoder serve all units, batches in between.
func TestSnapshotUnitsGoBothWays(t *testing.T) {
	var encoder wire.Encoder
	decoder := wire.NewDecoder(&wire.RelationCache{})
	rapid.Check(t, func(t *rapid.T) {
		unit := drawSnapshot(t)
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(referenceSnapshot(unit))
		require.NoError(t, err)
		raw, err := encoder.Snapshot(unit)
		require.NoError(t, err)
		require.Equal(t, want, raw.Bytes())
		got, err := decoder.Snapshot(raw.Bytes())
		require.NoError(t, err)
		sameSnapshot(t, unit, got)
		raw.Free()
		between, err := encoder.Batch(drawUnit(t, 1))
		require.NoError(t, err)
		_, err = decoder.Batch(between.Bytes())
		require.NoError(t, err)
		between.Free()
	})
}

// A unit may be laid out in any way that protobuf allows.
func TestSnapshotUnitInUnusualLayout(t *testing.T) {
	unit := soundSnapshot()
	whole, err := proto.Marshal(unit)
	require.NoError(t, err)
	decoder := wire.NewDecoder(&wire.RelationCache{})
	want, err := decoder.Snapshot(whole)
	require.NoError(t, err)
	wanted := *want
	wanted.Rows = append([]core.Tuple(nil), want.Rows...)
	for i := range wanted.Rows {
		wanted.Rows[i] = wanted.Rows[i].Clone()
	}
	rows := &sinkv1.HandleSnapshotRequest{Unit: &sinkv1.SnapshotUnit{Rows: unit.GetUnit().GetRows()}}
	unit.Unit.Rows = nil
	rest, err := proto.Marshal(unit)
	require.NoError(t, err)
	first, err := proto.Marshal(rows)
	require.NoError(t, err)
	got, err := wire.NewDecoder(&wire.RelationCache{}).Snapshot(append(first, rest...))
	require.NoError(t, err)
	sameSnapshot(t, &wanted, got)
}

func soundSnapshot() *sinkv1.HandleSnapshotRequest {
	return referenceSnapshot(&core.SnapshotUnit{
		Call: call(), Expected: 5, Relation: people(), LSN: 7, RunID: [16]byte{9}, Generation: 2, First: true,
		Reset: core.ResetSnapshotRows, Last: true, Sweep: true, Token: []byte(secret),
		Rows: []core.Tuple{core.PackTuple(core.Text(secret), core.Null()), core.PackTuple(core.Text("2"), core.Value{Kind: core.ValueAbsent})},
	})
}

func TestBrokenSnapshotUnitsAreRefusedByField(t *testing.T) {
	type request = *sinkv1.HandleSnapshotRequest
	cases := []struct {
		path  string
		spoil func(request)
	}{
		{"context", func(m request) { m.Context = nil }},
		{"context.sender_id", func(m request) { m.Context.SenderId = nil }},
		{"expected_checkpoint", func(m request) { m.ExpectedCheckpoint = proto.Uint64(0) }},
		{"unit", func(m request) { m.Unit = nil }},
		{"unit.run_id", func(m request) { m.Unit.RunId = []byte("short") }},
		{"unit.run_id", func(m request) { m.Unit.RunId = nil }},
		{"unit.generation", func(m request) { m.Unit.Generation = 0 }},
		{"unit.relation.replica_identity", func(m request) { m.Unit.Relation.ReplicaIdentity = 0 }},
		{"unit.rows", func(m request) { m.Unit.Relation = nil }},
		{"unit.relation", func(m request) { m.Unit.Relation, m.Unit.Rows = nil, nil }},
		{"unit.rows[1].kinds", func(m request) { m.Unit.Rows[1].Kinds = "tu" }},
		{"unit.rows[1].kinds", func(m request) { *m.Unit.Rows[1] = sinkv1.Row{Kinds: "t", Values: [][]byte{nil}} }},
		{"unit.rows[1]", func(m request) { m.Unit.Rows[1].Kinds = "tb" }},
		{"unit.rows[0]", func(m request) { m.Unit.Rows[0].Kinds = "nn" }},
		{"unit.reset", func(m request) { m.Unit.Reset_ = 0 }},
		{"unit.reset", func(m request) { m.Unit.Reset_ = 3 }},
		{"unit.reset", func(m request) { m.Unit.Reset_ = -1 }},
		{"unit.reset", func(m request) { m.Unit.FirstForTable = false }},
		{"unit.sweep", func(m request) { m.Unit.LastForTable = false }},
		{"unit.progress_token", func(m request) { m.Unit.ProgressToken = make([]byte, core.ProgressTokenMax+1) }},
	}
	decoder := wire.NewDecoder(&wire.RelationCache{})
	sound, err := proto.Marshal(soundSnapshot())
	require.NoError(t, err)
	_, err = decoder.Snapshot(sound)
	require.NoError(t, err)
	for _, c := range cases {
		message := soundSnapshot()
		c.spoil(message)
		request, err := proto.Marshal(message)
		require.NoError(t, err)
		_, err = decoder.Snapshot(request)
		field, ok := errors.AsType[*wire.FieldError](err)
		require.True(t, ok, "%s: %v", c.path, err)
		require.Equal(t, c.path, field.Path)
		require.False(t, strings.Contains(err.Error(), secret), "%s shows a value", c.path)
	}
}

func TestSnapshotUnitsThatHaveNoForm(t *testing.T) {
	var encoder wire.Encoder
	row := []core.Tuple{core.PackTuple(core.Text("1"), core.Null())}
	_, err := encoder.Snapshot(&core.SnapshotUnit{Call: call(), Generation: 1, Rows: row})
	require.ErrorIs(t, err, wire.ErrNoRelation)
	latin := people()
	latin.Name = "stra\xdfe"
	_, err = encoder.Snapshot(&core.SnapshotUnit{Call: call(), Generation: 1, Relation: latin, Rows: row})
	require.ErrorIs(t, err, wire.ErrNotUTF8)
}

// FuzzDecodeSnapshot: no input panics, and what the decoder takes the generated code
// takes too, and both read the same from it.
func FuzzDecodeSnapshot(f *testing.F) {
	sound, err := proto.Marshal(soundSnapshot())
	require.NoError(f, err)
	f.Add(sound)
	f.Add([]byte{})
	decoder := wire.NewDecoder(&wire.RelationCache{})
	f.Fuzz(func(t *testing.T, request []byte) {
		unit, err := decoder.Snapshot(request)
		if err != nil {
			return
		}
		var message sinkv1.HandleSnapshotRequest
		require.NoError(t, proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(request, &message))
		want := referenceSnapshot(unit)
		if message.GetUnit().GetRelation() != nil {
			message.Unit.Relation.ShapeHash, want.Unit.Relation.ShapeHash = 0, 0
		}
		require.True(t, proto.Equal(&message, want), "decoded differs from generated:\n%v\n%v", &message, want)
	})
}
