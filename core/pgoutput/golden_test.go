package pgoutput

import (
	"testing"

	"github.com/jackc/pglogrepl"
	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/golden"
	"github.com/stretchr/testify/require"
)

// Every recorded message, against a parser that shares no line with ours.
func TestRecordedMessagesAgreeWithPglogrepl(t *testing.T) {
	all, err := golden.ReadDir("testdata")
	require.NoError(t, err)
	compared, streamed := 0, 0
	for _, r := range all {
		for i, s := range r.Sessions {
			t.Run(r.Name(i), func(t *testing.T) {
				n := compareSession(t, s)
				compared += n
				if s.Streaming() {
					streamed += n
				}
			})
		}
	}
	require.Greater(t, compared, 9_000)
	require.Greater(t, streamed, 4_000)
}

func compareSession(t *testing.T, s golden.Session) (compared int) {
	d := NewDecoder(Options{Streaming: s.Streaming()})
	top := uint32(0)
	for _, frame := range s.Messages() {
		kind := Kind(frame[0])
		var m Message
		err := d.Decode(frame, &m)
		switch kind {
		case KindBeginPrepare, KindPrepare, KindCommitPrepared, KindRollbackPrepared, KindStreamPrepare:
			requireCode(t, core.HaltUnsupportedMessage, err)
			continue
		}
		if s.Binary() && err != nil {
			requireCode(t, core.HaltUnsupportedMessage, err)
			continue
		}
		require.NoError(t, err)
		if kind == KindStreamAbort && !s.Streaming() {
			continue // passed over
		}
		require.Equal(t, frame, encode(&m))
		if top != 0 && m.Body != nil { // as protocol 1 would have it
			plain, alone := m, Message{}
			plain.XID, plain.SubXID, plain.Body = 0, 0, nil
			require.NoError(t, NewDecoder(Options{}).Decode(append([]byte{frame[0]}, m.Body...), &alone))
			require.Equal(t, plain, alone)
		}
		if !isInsertWithoutColumns(&m) { // for which pglogrepl asks for a byte more
			theirs, err := pglogrepl.ParseV2(frame, top != 0)
			require.NoError(t, err)
			want := fromPglogrepl(t, theirs)
			if want.SubXID != 0 && kind != KindStreamAbort {
				want.XID, want.Body = top, m.Body
			}
			if kind == KindStreamAbort { // it drops these
				want.LSN, want.Time = m.LSN, m.Time
			}
			require.Equal(t, want, m)
			compared++
		}
		switch kind {
		case KindStreamStart:
			top = m.XID
		case KindStreamStop:
			top = 0
		}
	}
	return compared
}

func isInsertWithoutColumns(m *Message) bool { return m.Kind == KindInsert && m.New.Columns == 0 }

func requireCode(t *testing.T, code core.HaltCode, err error) {
	t.Helper()
	halt, ok := core.AsHalt(err)
	require.True(t, ok)
	require.Equal(t, code, halt.Code)
}

func fromPglogrepl(t *testing.T, theirs pglogrepl.Message) (m Message) {
	sub := func(x pglogrepl.Message, xid uint32) Message {
		m := fromPglogrepl(t, x)
		m.SubXID = xid
		return m
	}
	switch x := theirs.(type) {
	case *pglogrepl.StreamStartMessageV2:
		return Message{Kind: KindStreamStart, XID: x.Xid, First: x.FirstSegment == 1}
	case *pglogrepl.StreamStopMessageV2:
		return Message{Kind: KindStreamStop}
	case *pglogrepl.StreamCommitMessageV2:
		require.Zero(t, x.Flags)
		return Message{Kind: KindStreamCommit, XID: x.Xid, LSN: core.LSN(x.CommitLSN), EndLSN: core.LSN(x.TransactionEndLSN), Time: x.CommitTime.UnixMicro() - postgresEpochMicros}
	case *pglogrepl.StreamAbortMessageV2:
		return Message{Kind: KindStreamAbort, XID: x.Xid, SubXID: x.SubXid}
	case *pglogrepl.RelationMessageV2:
		return sub(&x.RelationMessage, x.Xid)
	case *pglogrepl.TypeMessageV2:
		return sub(&x.TypeMessage, x.Xid)
	case *pglogrepl.InsertMessageV2:
		return sub(&x.InsertMessage, x.Xid)
	case *pglogrepl.UpdateMessageV2:
		return sub(&x.UpdateMessage, x.Xid)
	case *pglogrepl.DeleteMessageV2:
		return sub(&x.DeleteMessage, x.Xid)
	case *pglogrepl.TruncateMessageV2:
		return sub(&x.TruncateMessage, x.Xid)
	case *pglogrepl.LogicalDecodingMessageV2:
		return sub(&x.LogicalDecodingMessage, x.Xid)
	case *pglogrepl.BeginMessage:
		return Message{Kind: KindBegin, LSN: core.LSN(x.FinalLSN), Time: x.CommitTime.UnixMicro() - postgresEpochMicros, XID: x.Xid}
	case *pglogrepl.CommitMessage:
		require.Zero(t, x.Flags)
		return Message{Kind: KindCommit, LSN: core.LSN(x.CommitLSN), EndLSN: core.LSN(x.TransactionEndLSN), Time: x.CommitTime.UnixMicro() - postgresEpochMicros}
	case *pglogrepl.OriginMessage:
		return Message{Kind: KindOrigin, LSN: core.LSN(x.CommitLSN), Origin: x.Name}
	case *pglogrepl.RelationMessage:
		r := &core.Relation{OID: x.RelationID, Schema: x.Namespace, Name: x.RelationName,
			Identity: core.ReplicaIdentity(x.ReplicaIdentity), Columns: make([]core.Column, x.ColumnNum)}
		for i, c := range x.Columns {
			r.Columns[i] = core.Column{Name: c.Name, TypeOID: c.DataType, TypeModifier: c.TypeModifier, Identity: c.Flags == 1}
		}
		return Message{Kind: KindRelation, RelationOID: x.RelationID, Relation: r}
	case *pglogrepl.TypeMessage:
		return Message{Kind: KindType, Type: &Type{OID: x.DataType, Schema: x.Namespace, Name: x.Name}}
	case *pglogrepl.InsertMessage:
		return Message{Kind: KindInsert, RelationOID: x.RelationID, HasNew: true, New: tupleOf(x.Tuple)}
	case *pglogrepl.UpdateMessage:
		return Message{Kind: KindUpdate, RelationOID: x.RelationID, OldKind: x.OldTupleType, Old: tupleOf(x.OldTuple), HasNew: true, New: tupleOf(x.NewTuple)}
	case *pglogrepl.DeleteMessage:
		return Message{Kind: KindDelete, RelationOID: x.RelationID, OldKind: x.OldTupleType, Old: tupleOf(x.OldTuple)}
	case *pglogrepl.TruncateMessage:
		return Message{Kind: KindTruncate, Truncate: &Truncate{OIDs: x.RelationIDs,
			Cascade: x.Option&pglogrepl.TruncateOptionCascade != 0, RestartIdentity: x.Option&pglogrepl.TruncateOptionRestartIdentity != 0}}
	case *pglogrepl.LogicalDecodingMessage:
		return Message{Kind: KindMessage, LSN: core.LSN(x.LSN), Message: &LogicalMessage{Transactional: x.Transactional, Prefix: []byte(x.Prefix), Content: x.Content}}
	}
	require.Failf(t, "not compared", "%T", theirs)
	return Message{}
}

func tupleOf(x *pglogrepl.TupleData) Tuple {
	if x == nil {
		return Tuple{}
	}
	t := Tuple{Columns: int(x.ColumnNum), Raw: []byte{}}
	for _, c := range x.Columns {
		t.Raw = append(t.Raw, c.DataType)
		t.Unchanged = t.Unchanged || c.DataType == 'u'
		if c.DataType == 't' {
			t.Raw = be.AppendUint32(t.Raw, c.Length)
			t.Raw = append(t.Raw, c.Data...)
		}
	}
	return t
}
