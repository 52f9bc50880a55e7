package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// ProtocolMinor is the minor version of the contract that this code was written for.
const ProtocolMinor = 0

// nameBytesMax bounds a sink's name and version, which go into logs and reports.
const nameBytesMax = 256

// CapabilitiesRequest is the question, with our own version for the sink's log.
func CapabilitiesRequest(version string) *sinkv1.GetCapabilitiesRequest {
	return &sinkv1.GetCapabilitiesRequest{ProtocolMinor: ProtocolMinor, SidecarVersion: version}
}

// CapabilitiesToProto is what a sink answers.
func CapabilitiesToProto(c core.Capabilities) *sinkv1.GetCapabilitiesResponse {
	m := &sinkv1.GetCapabilitiesResponse{
		ProtocolMinor: ProtocolMinor, SinkName: c.Name, SinkVersion: c.Version,
		InstanceId: c.InstanceID, SinkKind: sinkv1.SinkKind_SINK_KIND_STATE_MIRROR,
		Limits: &sinkv1.Limits{
			MaxRequestBytes: uint64(max(c.Limits.RequestBytes, 0)), PreferredRequestBytes: uint64(max(c.Limits.PreferredBytes, 0)),
			MaxTransactionsPerBatch: uint32(max(c.Limits.TransactionsPerBatch, 0)),
		},
	}
	if c.Kind == core.AppendLog {
		m.SinkKind = sinkv1.SinkKind_SINK_KIND_APPEND_LOG
	}
	if c.Limits.CallDuration > 0 {
		m.Limits.MaxCallDuration = durationpb.New(c.Limits.CallDuration)
	}
	for _, capability := range c.Set.List() {
		m.Capabilities = append(m.Capabilities, sinkv1.Capability(capability))
	}
	for _, way := range c.Fencing {
		m.Fencing = append(m.Fencing, sinkv1.Fencing(way))
	}
	return m
}

// CapabilitiesFromProto reads a sink's answer. Capabilities, kinds and ways of fencing
// that this version does not know are left out; an unknown kind counts as the strict
// one. Garbage is a *FieldError.
func CapabilitiesFromProto(m *sinkv1.GetCapabilitiesResponse) (core.Capabilities, error) {
	if err := checkCapabilities(m); err != nil {
		return core.Capabilities{}, err
	}
	limits := m.GetLimits()
	c := core.Capabilities{
		Name: m.GetSinkName(), Version: m.GetSinkVersion(), InstanceID: m.GetInstanceId(),
		Kind: core.StateMirror, ProtocolMinor: m.GetProtocolMinor(),
		Limits: core.SinkLimits{
			RequestBytes:         int(min(limits.GetMaxRequestBytes(), core.ReceiveBytesMax)),
			PreferredBytes:       int(min(limits.GetPreferredRequestBytes(), core.ReceiveBytesMax)),
			TransactionsPerBatch: int(limits.GetMaxTransactionsPerBatch()),
			CallDuration:         limits.GetMaxCallDuration().AsDuration(),
		},
	}
	if m.GetSinkKind() == sinkv1.SinkKind_SINK_KIND_APPEND_LOG {
		c.Kind = core.AppendLog
	}
	for _, capability := range m.GetCapabilities() {
		if _, known := sinkv1.Capability_name[int32(capability)]; known {
			c.Set |= core.NewCapabilitySet(core.Capability(capability))
		}
	}
	for _, way := range m.GetFencing() {
		switch way {
		case sinkv1.Fencing_FENCING_STORED, sinkv1.Fencing_FENCING_INSTANCE:
			if !c.Fences(core.Fencing(way)) {
				c.Fencing = append(c.Fencing, core.Fencing(way))
			}
		}
	}
	return c, nil
}

// CheckCapabilities reports what the other side would refuse of an answer. The error is a
// *FieldError.
func CheckCapabilities(c core.Capabilities) error {
	_, err := CapabilitiesFromProto(CapabilitiesToProto(c))
	return err
}

func checkCapabilities(m *sinkv1.GetCapabilitiesResponse) error {
	limits := m.GetLimits()
	duration := limits.GetMaxCallDuration()
	switch {
	case m.GetSinkName() == "":
		return broken("sink_name", problemMissing)
	case tooLong(m.GetSinkName()):
		return broken("sink_name", "longer than %d bytes or not printable", nameBytesMax)
	case tooLong(m.GetSinkVersion()):
		return broken("sink_version", "longer than %d bytes or not printable", nameBytesMax)
	case len(m.GetInstanceId()) > instanceBytesMax:
		return broken("instance_id", "longer than %d bytes", instanceBytesMax)
	case duration != nil && duration.CheckValid() != nil:
		return broken("limits.max_call_duration", "out of range")
	case duration.AsDuration() < 0:
		return broken("limits.max_call_duration", "negative")
	}
	return nil
}

func tooLong(name string) bool {
	for _, r := range name {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return true
		}
	}
	return len(name) > nameBytesMax
}
