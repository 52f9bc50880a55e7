package pgoutput

import (
	"encoding/binary"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

var be = binary.BigEndian

// encode writes a message as Postgres does; what Decode accepted must come back.
func encode(m *Message) []byte {
	b := []byte{byte(m.Kind)}
	if m.SubXID != 0 && m.Kind != KindStreamAbort {
		b = be.AppendUint32(b, m.SubXID)
	}
	switch m.Kind {
	case KindStreamStart:
		b = append(be.AppendUint32(b, m.XID), flag(m.First))
	case KindStreamCommit:
		b = be.AppendUint32(b, m.XID)
		b = append(b, encode(&Message{Kind: KindCommit, LSN: m.LSN, EndLSN: m.EndLSN, Time: m.Time})[1:]...)
	case KindStreamAbort:
		b = be.AppendUint32(be.AppendUint32(b, m.XID), m.SubXID)
		if m.LSN != 0 {
			b = be.AppendUint64(be.AppendUint64(b, uint64(m.LSN)), uint64(m.Time))
		}
	case KindBegin:
		b = be.AppendUint64(b, uint64(m.LSN))
		b = be.AppendUint64(b, uint64(m.Time))
		b = be.AppendUint32(b, m.XID)
	case KindCommit:
		b = append(b, 0)
		b = be.AppendUint64(b, uint64(m.LSN))
		b = be.AppendUint64(b, uint64(m.EndLSN))
		b = be.AppendUint64(b, uint64(m.Time))
	case KindOrigin:
		b = be.AppendUint64(b, uint64(m.LSN))
		b = appendText(b, m.Origin)
	case KindRelation:
		b = appendRelation(b, m.Relation)
	case KindType:
		b = be.AppendUint32(b, m.Type.OID)
		b = appendText(appendText(b, m.Type.Schema), m.Type.Name)
	case KindInsert, KindUpdate, KindDelete:
		b = be.AppendUint32(b, m.RelationOID)
		if m.OldKind != OldNone {
			b = appendTuple(append(b, m.OldKind), m.Old)
		}
		if m.HasNew {
			b = appendTuple(append(b, 'N'), m.New)
		}
	case KindTruncate:
		b = be.AppendUint32(b, uint32(len(m.Truncate.OIDs)))
		b = append(b, flag(m.Truncate.Cascade)|flag(m.Truncate.RestartIdentity)<<1)
		for _, oid := range m.Truncate.OIDs {
			b = be.AppendUint32(b, oid)
		}
	case KindMessage:
		b = append(b, flag(m.Message.Transactional))
		b = be.AppendUint64(b, uint64(m.LSN))
		b = appendText(b, string(m.Message.Prefix))
		b = be.AppendUint32(b, uint32(len(m.Message.Content)))
		b = append(b, m.Message.Content...)
	}
	return b
}

func appendRelation(b []byte, r *core.Relation) []byte {
	b = be.AppendUint32(b, r.OID)
	b = appendText(appendText(b, r.Schema), r.Name)
	b = append(b, byte(r.Identity))
	b = be.AppendUint16(b, uint16(len(r.Columns)))
	for _, c := range r.Columns {
		b = appendText(append(b, flag(c.Identity)), c.Name)
		b = be.AppendUint32(b, c.TypeOID)
		b = be.AppendUint32(b, uint32(c.TypeModifier))
	}
	return b
}

// appendTuple goes through Values, so that walking is checked as well.
func appendTuple(b []byte, t Tuple) []byte {
	b = be.AppendUint16(b, uint16(t.Columns))
	for _, v := range t.Values() {
		b = append(b, v.Kind)
		if v.Kind == 't' {
			b = be.AppendUint32(b, uint32(len(v.Data)))
			b = append(b, v.Data...)
		}
	}
	return b
}

func appendText(b []byte, s string) []byte { return append(append(b, s...), 0) }

func flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}
