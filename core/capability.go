package core

import (
	"slices"
	"strings"
	"time"
)

// Capability is a named ability that a sink declares. The numbers are the wire's.
type Capability uint8

// All capabilities of contract version 1.
const (
	CapCheckpoint Capability = iota + 1
	CapTransaction
	CapBatch
	CapLargeTransaction
	CapMessage
	CapSchemaChange
	CapSnapshot
	CapSnapshotComplete
	CapSnapshotProgress
	CapSessionIdentity
	CapSlotOrigin
	CapResumeState
	CapTwoPhase
	capabilityEnd
)

var capabilityNames = [capabilityEnd]string{
	CapCheckpoint: "CHECKPOINT", CapTransaction: "TRANSACTION", CapBatch: "BATCH",
	CapLargeTransaction: "LARGE_TRANSACTION", CapMessage: "MESSAGE",
	CapSchemaChange: "SCHEMA_CHANGE", CapSnapshot: "SNAPSHOT",
	CapSnapshotComplete: "SNAPSHOT_COMPLETE", CapSnapshotProgress: "SNAPSHOT_PROGRESS",
	CapSessionIdentity: "SESSION_IDENTITY", CapSlotOrigin: "SLOT_ORIGIN",
	CapResumeState: "RESUME_STATE", CapTwoPhase: "TWO_PHASE",
}

// String is the capability's name in the contract.
func (c Capability) String() string {
	if c > 0 && c < capabilityEnd {
		return capabilityNames[c]
	}
	return "UNKNOWN"
}

// AllCapabilities lists every capability of this version, in wire order.
func AllCapabilities() []Capability {
	all := make([]Capability, 0, capabilityEnd-1)
	for c := CapCheckpoint; c < capabilityEnd; c++ {
		all = append(all, c)
	}
	return all
}

// CapabilitySet is a set of capabilities. The zero value is empty.
type CapabilitySet uint32

// NewCapabilitySet makes a set; unknown capabilities are left out.
func NewCapabilitySet(capabilities ...Capability) CapabilitySet {
	var s CapabilitySet
	for _, c := range capabilities {
		if c > 0 && c < capabilityEnd {
			s |= 1 << c
		}
	}
	return s
}

// Has reports whether c is in the set.
func (s CapabilitySet) Has(c Capability) bool { return s&(1<<c) != 0 }

// Missing lists what need has and s has not, in wire order.
func (s CapabilitySet) Missing(need CapabilitySet) []Capability { return (need &^ s).List() }

// List is the set in wire order.
func (s CapabilitySet) List() []Capability {
	var list []Capability
	for c := CapCheckpoint; c < capabilityEnd; c++ {
		if s.Has(c) {
			list = append(list, c)
		}
	}
	return list
}

// String is the names in wire order, joined by commas.
func (s CapabilitySet) String() string {
	names := make([]string, 0, capabilityEnd)
	for _, c := range s.List() {
		names = append(names, c.String())
	}
	return strings.Join(names, ",")
}

// Fencing is a way in which a sink keeps an overtaken sidecar from writing.
type Fencing uint8

// The two ways.
const (
	// FencingStored: the epoch lies in the sink's store and is checked in the writing
	// transaction.
	FencingStored Fencing = iota + 1
	// FencingInstance: instance id, epoch and sequence are remembered in memory.
	FencingInstance
)

// SinkKind decides how strict the guards are.
type SinkKind uint8

// The kinds. Anything unknown counts as StateMirror, the strict one.
const (
	StateMirror SinkKind = iota + 1
	AppendLog
)

// String names the kind as configuration and status do.
func (k SinkKind) String() string {
	if k == AppendLog {
		return "append_log"
	}
	return "state_mirror"
}

// Limits of calls to a sink. They bound memory on both sides of the wire.
const (
	// RequestBytesDefault is the largest request to a sink that names no limit: below
	// the 4 MiB that gRPC servers accept out of the box.
	RequestBytesDefault = 3 << 20
	// PreferredBytesDefault is the size at which an open batch is full.
	PreferredBytesDefault = 1 << 20
	// ReceiveBytesMax is what both our own sides accept.
	ReceiveBytesMax = 64 << 20
	// RelationsMax is the number of relations in one request.
	RelationsMax = 10_000
	// CallTimeoutDefault is the deadline of a call; CallTimeoutMax its ceiling after
	// doublings.
	CallTimeoutDefault = 60 * time.Second
	CallTimeoutMax     = 10 * time.Minute
)

// SinkLimits is what a sink says of itself; zero fields were not said.
type SinkLimits struct {
	RequestBytes         int
	PreferredBytes       int
	TransactionsPerBatch int
	CallDuration         time.Duration
}

// Resolved fills what was not said and caps what is beyond our own limits.
func (l SinkLimits) Resolved() SinkLimits {
	if l.RequestBytes <= 0 {
		l.RequestBytes = RequestBytesDefault
	}
	l.RequestBytes = min(l.RequestBytes, ReceiveBytesMax)
	if l.PreferredBytes <= 0 {
		l.PreferredBytes = PreferredBytesDefault
	}
	l.PreferredBytes = min(l.PreferredBytes, l.RequestBytes)
	if l.CallDuration <= 0 {
		l.CallDuration = CallTimeoutMax
	}
	l.CallDuration = min(l.CallDuration, CallTimeoutMax)
	return l
}

// Capabilities is everything a sink says of itself.
type Capabilities struct {
	Name, Version string
	// InstanceID is random per sink process.
	InstanceID []byte
	Kind       SinkKind
	Set        CapabilitySet
	Fencing    []Fencing
	Limits     SinkLimits
	// ProtocolMinor is told for reports; a difference is never an error.
	ProtocolMinor uint32
}

// Fences reports whether the sink offers this way of fencing.
func (c Capabilities) Fences(way Fencing) bool { return slices.Contains(c.Fencing, way) }
