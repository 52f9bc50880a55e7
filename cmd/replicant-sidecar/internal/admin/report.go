package admin

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Report is what /statusz answers. Positions are text as Postgres writes them, "16/B374D848"; sizes
// are bytes and times RFC 3339. Fields may be added, none changes its meaning.
type Report struct {
	// State is one of starting, standby, copying, catching_up, streaming, sink_unavailable,
	// source_unavailable, draining, halted, stopped; Reason says why, in our own words.
	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	Ready  bool      `json:"ready"`
	// ReadyReason is what /readyz?verbose says.
	ReadyReason string    `json:"ready_reason"`
	Version     string    `json:"version"`
	Started     time.Time `json:"started"`

	StreamID string     `json:"stream_id"`
	Slot     string     `json:"slot"`
	Epoch    uint64     `json:"epoch"`
	Mode     string     `json:"mode"`
	Source   SourceInfo `json:"source"`
	Sink     SinkInfo   `json:"sink"`
	// StandbyHolder is the server process that holds the slot while we are the standby.
	StandbyHolder uint32 `json:"standby_holder,omitempty"`

	// Received, Durable, Confirmed: read from Postgres, stored by the sink, told to
	// Postgres. WALEnd is the server's end of WAL as far as it was heard of.
	Received  core.LSN `json:"received"`
	Durable   core.LSN `json:"durable"`
	Confirmed core.LSN `json:"confirmed"`
	WALEnd    core.LSN `json:"wal_end"`
	// LagBytes is WALEnd minus Durable; LagSeconds the age of the oldest commit that was
	// read and is not durable.
	LagBytes     int64     `json:"lag_bytes"`
	LagSeconds   float64   `json:"lag_seconds"`
	LastProgress time.Time `json:"last_progress,omitzero"`
	InFlight     bool      `json:"in_flight"`

	// InProgress is how many transactions came in part and have not committed, SpilledBytes
	// what is on disk of such.
	InProgress   int   `json:"in_progress"`
	SpilledBytes int64 `json:"spilled_bytes"`

	// Copy is the newest copy of tables; absent where there was none.
	Copy *CopyInfo `json:"copy,omitempty"`

	// SlotGuard is what the slot costs the server.
	SlotGuard SlotGuard `json:"slot_guard"`
	// Publication is what is published, as the catalog shows it.
	Publication PublicationInfo `json:"publication"`

	// Counters since the start of the process. Replayed were sent again and skipped by the
	// sink; Sessions counts replication connections that streamed.
	Transactions uint64 `json:"transactions"`
	Changes      uint64 `json:"changes"`
	Messages     uint64 `json:"messages"`
	Rewound      uint64 `json:"rewound"`
	Units        uint64 `json:"units"`
	Bytes        uint64 `json:"bytes"`
	IdleSteps    uint64 `json:"idle_steps"`
	Replayed     uint64 `json:"replayed"`
	Skipped      uint64 `json:"skipped"`
	Sessions     uint64 `json:"sessions"`
	Streamed     uint64 `json:"streamed"`

	LastError string    `json:"last_error,omitempty"`
	LastHalt  *HaltInfo `json:"last_halt,omitempty"`
}

// SlotGuard says how much WAL the server keeps for the slot, how much more may be written
// before the slot is lost (absent without a limit), and how long that lasts at the
// present rate (absent where it is not known).
type SlotGuard struct {
	HeldBytes   int64   `json:"held_bytes"`
	SafeBytes   *int64  `json:"safe_bytes,omitempty"`
	LeftSeconds float64 `json:"left_seconds,omitempty"`
	WALStatus   string  `json:"wal_status"`
	Warning     string  `json:"warning,omitempty"`
}

// PublicationInfo says how many tables and partitions are published, and what changed last
// in a way that leaves the sink without rows.
type PublicationInfo struct {
	Tables  int    `json:"tables"`
	Warning string `json:"warning,omitempty"`
}

// SourceInfo is the server as the replication connection showed it.
type SourceInfo struct {
	SystemIdentifier string `json:"system_identifier"`
	Database         string `json:"database"`
	Timeline         uint32 `json:"timeline"`
	// ServerVersion is Postgres' number, such as 170004 for 17.4.
	ServerVersion int `json:"server_version"`
}

// Release is the server's version as people say it.
func (s SourceInfo) Release() string {
	return fmt.Sprintf("%d.%d", s.ServerVersion/10000, s.ServerVersion%10000)
}

// SinkInfo is what the sink says of itself; empty before it was reached.
type SinkInfo struct {
	Name         string   `json:"name"`
	Version      string   `json:"version"`
	Kind         string   `json:"kind"`
	InstanceID   string   `json:"instance_id"`
	Capabilities []string `json:"capabilities"`
}

// HaltInfo is the halt that ended the run, with the words of `explain`.
type HaltInfo struct {
	Code     core.HaltCode `json:"code"`
	Detail   string        `json:"detail"`
	Happened string        `json:"happened"`
	Means    string        `json:"means"`
	Do       string        `json:"do"`
	ExitCode int           `json:"exit_code"`
}

func (s *Server) report() Report {
	now, st := time.Now(), s.options.Status()
	ready, why := Ready(st, now, s.options.ProgressDeadline, false)
	r := Report{
		State: string(st.State), Reason: st.Reason, Since: st.Since, Ready: ready, ReadyReason: why,
		Version: s.options.Version, Started: s.started,
		StreamID: st.StreamID, Slot: st.Slot, Epoch: st.Epoch, Mode: st.Mode.String(),
		Source: SourceInfo{st.Source.SystemIdentifier, st.Source.Database, st.Source.Timeline, st.ServerVersion},
		Sink:   sinkInfo(st.Sink), StandbyHolder: st.StandbyHolder,
		Received: st.Received, Durable: st.Durable, Confirmed: st.Confirmed, WALEnd: st.WALEnd,
		LagBytes: st.LagBytes, LagSeconds: st.LagSeconds, LastProgress: st.LastProgress, InFlight: st.InFlight,
		SlotGuard:   SlotGuard{st.Guard.HeldBytes, st.Guard.SafeBytes, st.Guard.Left.Seconds(), st.Guard.WALStatus, st.Guard.Warning},
		Publication: PublicationInfo{st.Published.Tables, st.Published.Warning},
		Messages:    st.Messages, Rewound: st.Rewound,
		Transactions: st.Transactions, Changes: st.Changes, Units: st.Units, Bytes: st.Bytes,
		IdleSteps: st.IdleSteps, Replayed: st.Replayed, Skipped: st.Skipped, Sessions: st.Sessions,
		InProgress: st.InProgress, SpilledBytes: st.Spilled, Streamed: st.Streamed,
		LastError: st.LastError, Copy: copyInfo(st.Copy),
	}
	if h := st.LastHalt; h != nil {
		text, _ := core.Explain(h.Code)
		r.LastHalt = &HaltInfo{h.Code, h.Error(), text.Happened, text.Means, text.Do, text.Exit}
	}
	return r
}

func sinkInfo(c core.Capabilities) SinkInfo {
	info := SinkInfo{Name: c.Name, Version: c.Version, InstanceID: hex.EncodeToString(c.InstanceID), Capabilities: []string{}}
	if c.Kind != 0 {
		info.Kind = c.Kind.String()
	}
	for _, one := range c.Set.List() {
		info.Capabilities = append(info.Capabilities, one.String())
	}
	return info
}

func (s *Server) statusz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(s.report())
}
