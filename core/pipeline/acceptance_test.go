package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/assembler"
)

var (
	idColumn   = core.Column{Name: "id", TypeOID: 23, TypeModifier: -1, Identity: true}
	textColumn = core.Column{Name: "v", TypeOID: 25, TypeModifier: -1}
	intColumn  = core.Column{Name: "v", TypeOID: 23, TypeModifier: -1}
)

// accepting is a rig whose table was stored with columns id and v before a start that was
// told to accept what was committed below 500.
func accepting(t *testing.T) *rig {
	kept := &core.Relation{OID: tableOID, Schema: "public", Name: "t", Identity: core.IdentityDefault, Columns: []core.Column{idColumn, textColumn}}
	r := newRig(t, nil)
	m, err := NewMachine(r.m.set, assembler.New(assembler.Options{Slab: 4096, Known: []*core.Relation{kept}}), r.now)
	require.NoError(t, err)
	r.m = m
	r.m.acceptance = &acceptance{before: 500, kept: map[uint32]uint64{tableOID: kept.ShapeHash()}}
	return r
}

func TestAcceptance(t *testing.T) {
	halts := func(r *rig) {
		r.t.Helper()
		for {
			w, ok := r.m.Next()
			if !ok {
				break
			}
			r.ack(w.Unit)
		}
		require.Equal(r.t, core.HaltSchemaDestructive, haltCode(r.t, r.m.Halted()))
	}
	change := func(r *rig, commit core.LSN, column core.Column) {
		r.begin(commit)
		r.describe(idColumn, column)
		r.insert("1", "2")
		r.commit(commit, commit+10)
	}
	t.Run("the last that was committed before", func(t *testing.T) {
		r := accepting(t)
		change(r, 499, intColumn)
		require.Equal(t, []core.LSN{509}, ends(r.next()))
		waived := r.m.Waived()
		require.Len(t, waived, 1)
		require.Equal(t, "type_changed", waived[0].What)
		require.Empty(t, r.m.Waived(), "told once")
	})
	t.Run("committed at the border", func(t *testing.T) {
		r := accepting(t)
		change(r, 500, intColumn)
		halts(r)
		require.Empty(t, r.m.Waived())
	})
	t.Run("a second change of a table", func(t *testing.T) {
		r := accepting(t)
		change(r, 200, intColumn)
		change(r, 300, textColumn)
		halts(r)
	})
	t.Run("a shape that was not kept", func(t *testing.T) {
		r := accepting(t)
		r.m.acceptance.kept[tableOID]++
		change(r, 200, intColumn)
		halts(r)
	})
	t.Run("two in one transaction", func(t *testing.T) {
		r := accepting(t)
		r.begin(200)
		r.describe(idColumn, intColumn)
		r.insert("1", "2")
		r.describe(idColumn, textColumn)
		r.insert("2", "x")
		r.commit(200, 210)
		require.Equal(t, []core.LSN{210}, ends(r.next()))
		require.Len(t, r.m.Waived(), 2)
	})
}
