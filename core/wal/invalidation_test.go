package wal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

// Each way in which Postgres says that a slot is lost has its own word and advice; what a
// major does not tell is taken from what it does.
func TestInvalidation(t *testing.T) {
	for name, row := range map[string]struct {
		slot   wal.SlotState
		reason string
		advice string
	}{
		"14, by size":        {wal.SlotState{WALStatus: "lost"}, "wal_removed", "max_slot_wal_keep_size"},
		"16, by size":        {wal.SlotState{WALStatus: "lost", Conflicting: true}, "wal_removed", "max_slot_wal_keep_size"},
		"16, by recovery":    {wal.SlotState{WALStatus: "lost", Conflicting: true, RestartLSN: 1}, "conflict", "hot_standby_feedback"},
		"16, not lost yet":   {wal.SlotState{WALStatus: "reserved", Conflicting: true}, "conflict", "hot_standby_feedback"},
		"17, by recovery":    {wal.SlotState{WALStatus: "lost", Conflicting: true, InvalidationReason: "rows_removed"}, "rows_removed", "hot_standby_feedback"},
		"17, wal_level":      {wal.SlotState{InvalidationReason: "wal_level_insufficient"}, "wal_level_insufficient", "wal_level"},
		"18, idle":           {wal.SlotState{InvalidationReason: "idle_timeout"}, "idle_timeout", "idle_replication_slot_timeout"},
		"19, something else": {wal.SlotState{InvalidationReason: "unheard_of"}, "unheard_of", ""},
		"healthy":            {wal.SlotState{WALStatus: "extended"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			row.slot.Present = true
			got := row.slot.Invalidation()
			if row.reason == "" {
				require.Empty(t, got)
				return
			}
			require.Regexp(t, "^"+row.reason+`\b`, got)
			require.Contains(t, got, row.advice)
		})
	}
}
