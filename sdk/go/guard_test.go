package sink

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

var (
	home  = core.SourceIdentity{SystemIdentifier: "7", Database: "shop", Slot: "a", Timeline: 1}
	alice = [16]byte{'a'}
	bob   = [16]byte{'b'}
)

// stored is the row of a stream that alice claimed as epoch 5 and brought to 100.
func stored() StreamRow {
	return StreamRow{
		Stream: "s", SystemIdentifier: "7", Database: "shop", Lineage: []byte("line"),
		Epoch: 5, Sender: alice, Position: 100, ResumeState: []byte("old"),
	}
}

func requireReason(t *testing.T, want core.Reason, err error, name string) {
	t.Helper()
	if want == "" {
		require.NoError(t, err, name)
		return
	}
	var refusal *core.Refusal
	require.ErrorAs(t, err, &refusal, name)
	require.Equal(t, want, refusal.Reason, name)
}

func TestDecideClaim(t *testing.T) {
	moved := home
	moved.Slot, moved.Timeline = "b", 9
	otherSystem, otherDatabase := home, home
	otherSystem.SystemIdentifier, otherDatabase.Database = "8", "bank"
	claim := func(epoch uint64, sender [16]byte) *core.Claim { return &core.Claim{Epoch: epoch, SenderID: sender} }
	cases := []struct {
		name   string
		found  bool
		source core.SourceIdentity
		claim  *core.Claim
		reason core.Reason
		save   bool
		epoch  uint64
		sender [16]byte
	}{
		{"read of nothing creates nothing", false, home, nil, "", false, 0, [16]byte{}},
		{"read", true, home, nil, "", false, 5, alice},
		{"read of another system", true, otherSystem, nil, core.ReasonSourceMismatch, false, 5, alice},
		{"claim from another system", true, otherSystem, claim(6, bob), core.ReasonSourceMismatch, false, 5, alice},
		{"claim from another database", true, otherDatabase, claim(6, bob), core.ReasonSourceMismatch, false, 5, alice},
		{"slot and timeline are not bound", true, moved, claim(6, bob), "", true, 6, bob},
		{"first claim", false, home, claim(1, bob), "", true, 1, bob},
		{"first claim of a high epoch", false, home, claim(9, bob), "", true, 9, bob},
		{"higher epoch", true, home, claim(6, bob), "", true, 6, bob},
		{"much higher epoch", true, home, claim(60, bob), "", true, 60, bob},
		{"own claim again", true, home, claim(5, alice), "", false, 5, alice},
		{"same epoch, somebody else", true, home, claim(5, bob), core.ReasonFenced, false, 5, alice},
		{"lower epoch", true, home, claim(4, alice), core.ReasonFenced, false, 5, alice},
	}
	for _, c := range cases {
		row := StreamRow{}
		if c.found {
			row = stored()
		}
		next, save, err := decideClaim(row, c.found, core.CheckpointRequest{StreamID: "s", Source: c.source, Claim: c.claim},
			func() []byte { return []byte("line") })
		requireReason(t, c.reason, err, c.name)
		require.Equal(t, c.save, save, c.name)
		require.Equal(t, c.epoch, next.Epoch, c.name)
		require.Equal(t, c.sender, next.Sender, c.name)
		if c.found {
			require.Equal(t, core.LSN(100), next.Position, c.name)
			require.Equal(t, "old", string(next.ResumeState), c.name)
		}
		if save {
			require.Equal(t, "line", string(next.Lineage), c.name)
			require.Equal(t, "7", next.SystemIdentifier, c.name)
			require.Equal(t, "shop", next.Database, c.name)
		}
	}
}

func TestDecideUnit(t *testing.T) {
	fresh := stored()
	fresh.Position, fresh.ResumeState = 0, nil
	transactions := func(pairs ...core.LSN) []core.Transaction {
		var list []core.Transaction
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, core.Transaction{CommitLSN: pairs[i], EndLSN: pairs[i+1]})
		}
		return list
	}
	cases := []struct {
		name         string
		row          StreamRow
		found        bool
		epoch        uint64
		expected     core.LSN
		checkpoint   core.LSN
		state        []byte
		transactions []core.Transaction

		reason   core.Reason
		apply    []core.LSN // commit LSNs
		replayed uint64
		position core.LSN
		save     bool
		kept     string
	}{
		{name: "next transaction", row: stored(), found: true, epoch: 5, expected: 100, checkpoint: 120,
			transactions: transactions(110, 120), apply: []core.LSN{110}, position: 120, save: true, kept: "old"},
		{name: "commit starts exactly at the position", row: stored(), found: true, epoch: 5, expected: 100, checkpoint: 120,
			transactions: transactions(100, 120), apply: []core.LSN{100}, position: 120, save: true, kept: "old"},
		{name: "replay", row: stored(), found: true, epoch: 5, expected: 90, checkpoint: 100,
			transactions: transactions(95, 100), replayed: 1, position: 100, kept: "old"},
		{name: "replay from far below", row: stored(), found: true, epoch: 5, checkpoint: 50,
			transactions: transactions(40, 50), replayed: 1, position: 100, kept: "old", state: []byte("older")},
		{name: "batch partly there", row: stored(), found: true, epoch: 5, expected: 80, checkpoint: 130,
			transactions: transactions(85, 90, 90, 100, 100, 110, 120, 130),
			apply:        []core.LSN{100, 120}, replayed: 2, position: 130, save: true, kept: "old"},
		{name: "idle step", row: stored(), found: true, epoch: 5, expected: 100, checkpoint: 140, position: 140, save: true, kept: "old"},
		{name: "idle step again", row: stored(), found: true, epoch: 5, expected: 100, checkpoint: 100, position: 100, kept: "old"},
		{name: "first unit", row: fresh, found: true, epoch: 5, checkpoint: 20,
			transactions: transactions(10, 20), apply: []core.LSN{10}, position: 20, save: true},
		{name: "state is stored with its position", row: stored(), found: true, epoch: 5, expected: 100, checkpoint: 120,
			state: []byte("new"), position: 120, save: true, kept: "new"},
		{name: "empty state is a state", row: stored(), found: true, epoch: 5, expected: 100, checkpoint: 120,
			state: []byte{}, position: 120, save: true, kept: ""},
		{name: "lower epoch", row: stored(), found: true, epoch: 4, expected: 100, checkpoint: 120, reason: core.ReasonFenced},
		{name: "lower epoch beats the gap", row: stored(), found: true, epoch: 4, expected: 900, checkpoint: 920, reason: core.ReasonFenced},
		{name: "higher epoch", row: stored(), found: true, epoch: 6, expected: 100, checkpoint: 120, reason: core.ReasonCheckpointBehind},
		{name: "gap", row: stored(), found: true, epoch: 5, expected: 101, checkpoint: 120, reason: core.ReasonCheckpointBehind},
		{name: "expected where nothing is stored", row: fresh, found: true, epoch: 5, expected: 1, checkpoint: 20, reason: core.ReasonCheckpointBehind},
		{name: "no row", epoch: 5, expected: 100, checkpoint: 120, reason: core.ReasonCheckpointBehind},
		{name: "no row, nothing expected", epoch: 1, checkpoint: 120, reason: core.ReasonCheckpointBehind},
		{name: "no row, no claim", epoch: 0, checkpoint: 120, reason: core.ReasonCheckpointBehind},
	}
	for _, c := range cases {
		plan, err := decideUnit(c.row, c.found, &core.Unit{
			Call: core.Call{StreamID: "s", Owner: core.OwnerSink, Epoch: c.epoch}, Expected: c.expected,
			Checkpoint: c.checkpoint, ResumeState: c.state, Transactions: c.transactions,
		})
		requireReason(t, c.reason, err, c.name)
		if c.reason != "" {
			require.Zero(t, plan, c.name)
			continue
		}
		var applied []core.LSN
		for _, one := range plan.apply {
			applied = append(applied, one.CommitLSN)
		}
		require.Equal(t, c.apply, applied, c.name)
		require.Equal(t, c.replayed, plan.replayed, c.name)
		require.Equal(t, c.position, plan.row.Position, c.name)
		require.Equal(t, c.save, plan.save, c.name)
		require.Equal(t, c.kept, string(plan.row.ResumeState), c.name)
		require.Equal(t, c.row.Lineage, plan.row.Lineage, c.name)
	}
}
