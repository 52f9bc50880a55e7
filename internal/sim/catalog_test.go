package sim

import (
	"strconv"
	"strings"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

const (
	systemID = "7000000000000000001"
	database = "source"
	slotName = "sim"
)

func (s *server) version() string { return strconv.Itoa(s.major) + ".2" }

// catalog answers what core/wal asks, by what it is about; otherwise a SQLSTATE.
func (b *backend) catalog(query string) (rows [][]string, sqlstate string) {
	s := b.s
	has := func(part string) bool { return strings.Contains(query, part) }
	if strings.HasPrefix(query, "CREATE_REPLICATION_SLOT") {
		return b.createSlot()
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	end := s.w.wal.end.String()
	switch {
	case query == "IDENTIFY_SYSTEM":
		return [][]string{{systemID, "1", end, database}}, ""
	case has("pg_backend_pid"):
		return [][]string{{"", strconv.FormatUint(uint64(b.pid), 10), milliseconds(senderTimeout)}}, ""
	case has("pg_logical_emit_message"):
		s.w.wal.add(record{kind: message, prefix: core.HeartbeatPrefix}, 56)
		return [][]string{{s.w.wal.end.String()}}, ""
	case has("pg_replication_slots"):
		return [][]string{s.slotRow()}, ""
	case has("server_version_num"):
		return [][]string{{strconv.Itoa(s.major) + "0002", "f", "logical", milliseconds(time.Minute)}}, ""
	case has("pg_publication_tables"):
		return nil, ""
	case has("pg_publication "):
		return [][]string{{"1"}}, ""
	case has("pg_current_wal_lsn"):
		return [][]string{{end}}, ""
	case has("pg_try_advisory_lock"):
		if s.lock == nil {
			s.lock = b
		}
		b.gen.held = b.gen.held || s.lock == b
		return [][]string{{letter(s.lock == b)}}, ""
	case has("pg_advisory_unlock"):
		ours := s.lock == b
		if ours {
			s.lock = nil
		}
		return [][]string{{letter(ours)}}, ""
	case has("pg_index"):
		return [][]string{{"id", "1"}}, ""
	case has("pg_type"):
		return [][]string{{"23", "integer", "0", "0"}, {"25", "text", "0", "0"}}, ""
	case has("pg_locks"): // what is streamed is visible
		return nil, ""
	case strings.HasPrefix(query, "SET "), query == "-- ping":
		return nil, ""
	}
	s.w.fail("the server was asked what it does not know: %s", query)
	return nil, "42601"
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func letter(on bool) string {
	if on {
		return "t"
	}
	return "f"
}

func (s *server) slotRow() []string {
	at := &s.slot
	if !at.present {
		return []string{"", "", "", "f", "0", "0", "", "0/0", "0/0", "", "", "", "f", "f", "f", "f", "f", database, "logical", ""}
	}
	active, pid := at.holder != nil, "0"
	if active {
		pid = strconv.FormatUint(uint64(at.holder.pid), 10)
	}
	return []string{
		"pgoutput", "logical", database, letter(active), pid, "0", "", at.confirmed.String(), at.base.String(),
		"reserved", "", "", "f", "f", "f", "f", "f", database, "logical", "",
	}
}

// createSlot makes the slot once transactions that run have ended. Its consistent point
// is the end of the WAL, which may be the start of the next commit record.
func (b *backend) createSlot() ([][]string, string) {
	s := b.s
	s.w.mu.Lock()
	pause := time.Duration(s.rng.IntN(2000)) * time.Millisecond
	s.w.mu.Unlock()
	time.Sleep(pause)
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.slot.present {
		return nil, "42710"
	}
	at := s.w.wal.end
	s.slot = slot{present: true, base: at, confirmed: at, saved: at}
	s.w.note("slot created at %s", at)
	return [][]string{{slotName, at.String(), "", "pgoutput"}}, ""
}
