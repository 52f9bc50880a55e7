package wire

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// SessionIdentityToProto shows a sink the source before anything is read.
func SessionIdentityToProto(i core.SessionIdentity) *sinkv1.HandleSessionIdentityRequest {
	return &sinkv1.HandleSessionIdentityRequest{
		StreamId: i.StreamID, Source: sourceToProto(i.Source), Publications: i.Publications, WalEnd: uint64(i.CurrentLSN),
	}
}

// SessionIdentityFromProto reads it. The error is a *FieldError.
func SessionIdentityFromProto(m *sinkv1.HandleSessionIdentityRequest) (core.SessionIdentity, error) {
	i := core.SessionIdentity{
		StreamID: m.GetStreamId(), Source: sourceFromProto(m.GetSource()),
		CurrentLSN: core.LSN(m.GetWalEnd()), Publications: m.GetPublications(),
	}
	return i, checkSource(m.GetStreamId(), m.GetSource())
}

// SlotOriginToProto asks a sink for its consent to a starting position.
func SlotOriginToProto(o core.SlotOrigin) *sinkv1.HandleSlotOriginRequest {
	return &sinkv1.HandleSlotOriginRequest{
		StreamId: o.StreamID, Source: sourceToProto(o.Source), OriginLsn: uint64(o.Origin), Reused: o.Reused,
	}
}

// SlotOriginFromProto reads it. The error is a *FieldError.
func SlotOriginFromProto(m *sinkv1.HandleSlotOriginRequest) (core.SlotOrigin, error) {
	o := core.SlotOrigin{
		StreamID: m.GetStreamId(), Source: sourceFromProto(m.GetSource()), Origin: core.LSN(m.GetOriginLsn()), Reused: m.GetReused(),
	}
	if m.GetOriginLsn() == 0 {
		return o, broken("origin_lsn", problemMissing)
	}
	return o, checkSource(m.GetStreamId(), m.GetSource())
}

func checkSource(stream string, source *sinkv1.SourceIdentity) error {
	if stream == "" {
		return broken("stream_id", problemMissing)
	}
	if source == nil {
		return broken("source", problemMissing)
	}
	return nil
}
