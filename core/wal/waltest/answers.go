package waltest

import (
	"slices"
	"strconv"
	"strings"
)

// rows answers the questions that core/wal asks, by what they are about.
func (s State) rows(query string) ([][]string, bool) {
	has := func(part string) bool { return strings.Contains(query, part) }
	switch {
	case query == "IDENTIFY_SYSTEM":
		return [][]string{{s.SystemID, s.Timeline, s.WALEnd, s.Database}}, true
	case strings.HasPrefix(query, "TIMELINE_HISTORY "):
		return [][]string{{"00000002.history", s.History}}, true
	case strings.HasPrefix(query, "CREATE_REPLICATION_SLOT"):
		name, _, _ := strings.Cut(strings.TrimPrefix(query, `CREATE_REPLICATION_SLOT "`), `"`)
		return [][]string{{name, s.WALEnd, "", "pgoutput"}}, true
	case has("pg_backend_pid"):
		return [][]string{{s.Unset, strconv.Itoa(pid), s.SenderTimeout}}, true
	case has("pg_replication_slots"):
		return [][]string{s.slotRow()}, true
	case has("server_version_num"):
		major, _, _ := strings.Cut(s.Version, ".")
		return [][]string{{major + "0002", flag(s.InRecovery), "logical", s.SenderTimeout}}, true
	case has("pg_publication_tables"):
		return nil, true
	case has("pg_publication "):
		_, name, _ := strings.Cut(query, "pubname = '")
		name = strings.ReplaceAll(strings.TrimSuffix(name, "'"), "''", "'")
		if slices.Contains(s.Publications, name) {
			return [][]string{{"1"}}, true
		}
		return [][]string{{"0"}}, true
	case has("pg_current_wal_lsn"):
		return [][]string{{s.WALEnd}}, true
	case has("pg_try_advisory_lock"), has("pg_advisory_unlock"):
		return [][]string{{"t"}}, true
	case has("pg_type"), has("pg_index"), has("pg_locks"), strings.HasPrefix(query, "SET "):
		return nil, true
	}
	return nil, query == "-- ping"
}

func flag(b bool) string {
	if b {
		return "t"
	}
	return "f"
}

func (s State) slotRow() []string {
	slot := s.Slot
	if slot == nil {
		slot = &Slot{}
	}
	or := func(value, otherwise string) string {
		if value == "" {
			return otherwise
		}
		return value
	}
	return []string{
		slot.Plugin, slot.Type, slot.Database, flag(slot.Active), or(slot.ActivePID, "0"), "0", "",
		or(slot.ConfirmedFlush, "0/0"), "0/0", slot.WALStatus, "", slot.Invalidation,
		"f", flag(slot.TwoPhase), "f", flag(slot.Synced), flag(slot.Synced), s.Database, "logical", "",
	}
}
