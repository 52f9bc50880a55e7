package pipeline

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
)

// tables are n tables of 15 columns each.
func tables(n int, name func(table, column int) string) (list []*core.Relation) {
	for i := range n {
		r := &core.Relation{OID: uint32(1<<24*(i%2) + 16384 + i), Schema: "public", Name: fmt.Sprintf("table_%05d", i), Identity: core.IdentityDefault}
		for c := range 15 {
			r.Columns = append(r.Columns, core.Column{Name: name(i, c), TypeOID: uint32(20 + c), TypeModifier: -1, Identity: c == 0})
		}
		list = append(list, r)
	}
	return list
}

func sameNames(_, column int) string { return fmt.Sprintf("c%d", column) }

// delivered is the shapes after each relation was delivered with a unit of its own, and
// what is stored then.
func delivered(s *shapes, list []*core.Relation) (stored []byte) {
	for _, r := range list {
		s.note(r)
		if b := s.with([]*core.Relation{r}); b != nil {
			stored = b
		}
		s.settle([]*core.Relation{r})
	}
	return stored
}

func TestResumeStateGivesBackWhatWasStored(t *testing.T) {
	list := tables(3, sameNames)
	list[1].Schema, list[2].Identity = "not UTF-8 \xff", core.IdentityFull
	list[1].Columns[4] = core.Column{Name: "o\x00ther", TypeOID: 1043, TypeModifier: 36}
	list[2].Columns = nil
	s := newShapes(true, resumeState{}, 7)
	delivered(&s, list)
	changed := *list[0]
	changed.Columns = changed.Columns[1:]
	list[0] = &changed
	b := delivered(&s, list[:1])
	got, err := readResumeState(b)
	require.NoError(t, err)
	require.Equal(t, resumeState{Timeline: 7, Relations: inOrder(s.durable)}, got)
	require.Len(t, got.Relations[0].Columns, 14, "the later record counts")
	require.Nil(t, s.with(list), "it is stored already")

	again := newShapes(true, got, 7)
	require.Nil(t, again.with(nil), "it is stored already")
	promoted := newShapes(true, got, 8)
	state, err := readResumeState(promoted.with(nil))
	require.NoError(t, err)
	require.Equal(t, resumeState{Timeline: 8, Relations: got.Relations}, state)

	for i := range b {
		spoilt := append([]byte{}, b...)
		spoilt[i] ^= 1
		_, err := readResumeState(spoilt)
		require.Equal(t, core.HaltSinkContract, haltCode(t, err), "byte %d", i)
		_, err = readResumeState(b[:max(i, 1)])
		require.Equal(t, core.HaltSinkContract, haltCode(t, err), "cut at %d", i)
	}
}

// A checkpoint that an earlier version left is read.
func TestResumeStateOfTheFirstForm(t *testing.T) {
	b, err := json.Marshal(map[string]any{"v": 1, "timeline": 3, "relations": []any{map[string]any{
		"oid": 16400, "schema": []byte("public"), "name": []byte("t"), "identity": 'd',
		"columns": []any{map[string]any{"name": []byte("id"), "type": 23, "mod": -1, "key": true}},
	}}})
	require.NoError(t, err)
	got, err := readResumeState(b)
	require.NoError(t, err)
	require.Equal(t, resumeState{3, []*core.Relation{{
		OID: 16400, Schema: "public", Name: "t", Identity: 'd',
		Columns: []core.Column{{Name: "id", TypeOID: 23, TypeModifier: -1, Identity: true}},
	}}}, got)
	_, err = readResumeState([]byte(`{"v":3}`))
	require.Equal(t, core.HaltSinkContract, haltCode(t, err))
}

// Twenty thousand tables fit, each of them with the names of its columns.
func TestResumeStateHoldsManyTables(t *testing.T) {
	list := tables(20_000, sameNames)
	s := newShapes(true, resumeState{}, 1)
	delivered(&s, list[:100]) // one by one
	s.settle(list[100:19_999])
	b := s.with(list[19_999:])
	require.LessOrEqual(t, len(b), resumeStateMax)
	got, err := readResumeState(b)
	require.NoError(t, err)
	require.Len(t, got.Relations, len(list))
	require.Equal(t, "c14", got.Relations[19_999].Columns[14].Name)
}

// What does not fit is told once, and the timeline is stored all the same, without shapes
// that would be out of date soon.
func TestResumeStateThatDoesNotFit(t *testing.T) {
	var told []int
	s := newShapes(true, resumeState{}, 5)
	s.told = func(n int) { told = append(told, n) }
	s.most = 64 << 10
	list := tables(1000, func(table, column int) string { return fmt.Sprintf("c%d_%d", table, column) })
	got, err := readResumeState(delivered(&s, list))
	require.NoError(t, err)
	require.Equal(t, uint32(5), got.Timeline)
	require.Empty(t, got.Relations)
	require.Len(t, told, 1)
	require.Len(t, s.state(s.durable).Relations, 1000, "while running they are known")
	require.Nil(t, s.with(list), "and that is stored")
}

// A table that changes often does not use the room up.
func TestResumeStateForgetsWhatWasReplaced(t *testing.T) {
	s := newShapes(true, resumeState{}, 5)
	s.told = func(int) { t.Error("it fits") }
	s.most = 4 << 10
	var stored []byte
	for i := range 1000 {
		r := tables(1, func(_, column int) string { return fmt.Sprintf("c%d_%d", i, column) })
		stored = delivered(&s, r)
		require.NotNil(t, stored)
		require.LessOrEqual(t, len(stored), s.most)
	}
	got, err := readResumeState(stored)
	require.NoError(t, err)
	require.Equal(t, "c999_3", got.Relations[0].Columns[3].Name)
}

func kept(t *testing.T, b []byte) (timeline uint32, shapes int) {
	t.Helper()
	require.NotNil(t, b)
	state, err := readResumeState(b)
	require.NoError(t, err)
	return state.Timeline, len(state.Relations)
}

// Whatever is sent first under another timeline carries it; what comes behind does not
// again.
func TestMachineFirstUnitCarriesTheTimeline(t *testing.T) {
	newTimeline := func(s *Settings) {
		s.KeepShapes, s.Timeline, s.Messages, s.Resume = true, 2, true, resumeState{Timeline: 1}
	}
	first := map[string]func(r *rig) []byte{
		"idle step": func(r *rig) []byte {
			r.m.Keepalive(500, true)
			u := r.next()
			r.ack(u)
			return u.ResumeState
		},
		"message": func(r *rig) []byte {
			r.message(500)
			w, ok := r.m.Next()
			require.True(t, ok)
			require.NoError(t, r.m.Acked(core.Ack{Checkpoint: 500}))
			return w.Message.ResumeState
		},
	}
	for name, send := range first {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, newTimeline)
			timeline, _ := kept(t, send(r))
			require.Equal(t, uint32(2), timeline)
			r.m.Keepalive(600, true)
			u := r.next()
			require.Nil(t, u.ResumeState, "it is stored")
			r.ack(u)
			r.transaction(610, 620, "x")
			r.later(time.Second)
			timeline, shapes := kept(t, r.next().ResumeState)
			require.Equal(t, []int{2, 1}, []int{int(timeline), shapes})
		})
	}
}

// A half of a batch that was too big carries what it shows itself, and so does each
// border inside a unit.
func TestMachineBordersCarryTheirShapes(t *testing.T) {
	r := newRig(t, func(s *Settings) { s.KeepShapes, s.Timeline = true, 1 })
	r.transaction(110, 120, "x")
	r.transaction(130, 140, "x")
	r.describe(core.Column{Name: "id", TypeOID: 23, TypeModifier: -1, Identity: true},
		core.Column{Name: "v", TypeOID: 25, TypeModifier: -1}, core.Column{Name: "w", TypeOID: 25, TypeModifier: -1})
	r.begin(150)
	r.m.Receive(&pgoutput.Message{Kind: pgoutput.KindInsert, RelationOID: tableOID, HasNew: true, New: rawTuple("1", "x", "y")})
	r.commit(150, 160)
	width := func(b []byte) int {
		state, err := readResumeState(b)
		require.NoError(t, err)
		require.Len(t, state.Relations, 1)
		return len(state.Relations[0].Columns)
	}
	w, ok := r.m.Next()
	require.True(t, ok)
	require.Len(t, w.Unit.Transactions, 3)
	require.Equal(t, []int{2, 2, 3}, []int{width(w.Border(1)), width(w.Border(2)), width(w.Border(3))})
	require.Equal(t, 3, width(w.Unit.ResumeState))
	require.NoError(t, r.m.TooBig())
	first := r.next()
	require.Equal(t, 2, width(first.ResumeState))
	r.ack(first)
	second := r.next()
	require.Equal(t, 3, width(second.ResumeState))
	r.ack(second)

	r = newRig(t, func(s *Settings) { s.KeepShapes, s.Timeline = true, 1 })
	r.transaction(110, 120, "x")
	r.next()
	require.NoError(t, r.m.TooBig())
	w, ok = r.m.Next()
	require.True(t, ok)
	require.NotNil(t, w.Large)
	_, _ = r.m.Part()
	require.NoError(t, r.m.PartTaken())
	frame, ok := r.m.Part()
	require.True(t, ok)
	require.Equal(t, 2, width(frame.Commit.ResumeState))
}
