package incremental

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// TestForgottenTablesWait: a table that a server may have forgotten is neither cleared nor
// copied before a token says where its writers had ended and the stream begins behind that.
func TestForgottenTablesWait(t *testing.T) {
	keyed := Member{OID: 1, Schema: "s", Name: "keyed", Key: []string{"k"}, KeyTypes: []uint32{23}, KeyCollations: []string{""}, Identity: core.IdentityDefault}
	keyless := Member{OID: 2, Schema: "s", Name: "keyless", Identity: core.IdentityDefault}
	r := New(State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Complete: true}, Settings{Forgets: true, From: 50}, epoch)
	require.NoError(t, r.Listed([]Member{keyed, keyless}, [16]byte{1}))
	looked := func(r *Run, end core.LSN, writers ...Writer) {
		job, ok := r.Next()
		require.True(t, ok)
		require.Equal(t, JobLook, job.Kind)
		r.Looked(Look{ID: job.ID, Found: true, Member: job.Table, Relation: &core.Relation{OID: job.Table.OID}, Writers: writers, End: end})
	}
	looked(r, 100)
	_, due := r.Restart()
	require.False(t, due, "the other table was not looked at")
	looked(r, 120, Writer{XID: 7})
	_, due = r.Restart()
	require.False(t, due, "no token says it")
	note := r.Take()
	require.True(t, note.Notes())
	token := r.Unit(note).Token
	r.Stored(note)
	require.Nil(t, r.Take(), "nothing is cleared")
	at, due := r.Restart()
	require.True(t, due, "it does not wait for the other one's writer")
	require.EqualValues(t, 100, at)

	for from, ready := range map[core.LSN]bool{99: false, 100: true} {
		state, err := Decode(token)
		require.NoError(t, err)
		again := New(*state, Settings{Forgets: true, From: from}, epoch)
		looked(again, 130)
		looked(again, 130)
		note := again.Take()
		require.True(t, note.Notes())
		again.Unit(note)
		again.Stored(note)
		step := again.Take()
		require.Equal(t, ready, step != nil && step.Clears(), "from %s", from)
		for {
			job, ok := again.Next()
			if !ok {
				break
			}
			require.NotEqual(t, JobCopy, job.Kind, "the table without a key waits still")
		}
	}
	sure := New(State{Generation: 1, Kind: KindInitial, Floor: 1, Listed: true, Complete: true}, Settings{From: 50}, epoch)
	require.NoError(t, sure.Listed([]Member{keyed}, [16]byte{1}))
	looked(sure, 100)
	require.True(t, sure.Take().Clears())
}
