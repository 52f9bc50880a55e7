package wire

import (
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// transaction reads one Transaction message; its changes are appended to d.changes.
func (d *decoded) transaction(t *core.Transaction, body []byte) *FieldError {
	var committed []byte
	first := len(d.changes)
	for f := (fields{rest: body}); f.more(); {
		if !f.next() {
			return broken("", problemNotProtobuf)
		}
		switch {
		case f.isBytes(6):
			if err := d.change(f.body); err != nil {
				if err == errUnusual {
					return err
				}
				return err.underIndex("changes", len(d.changes)-first)
			}
		case f.isNumber(1):
			t.XID = uint32(f.number)
		case f.isNumber(2):
			t.CommitLSN = core.LSN(f.number)
		case f.isNumber(3):
			t.EndLSN = core.LSN(f.number)
		case f.isBytes(4):
			if committed != nil {
				return errUnusual
			}
			committed = f.body
		case f.isBytes(5):
			if !utf8.Valid(f.body) {
				return broken("origin", problemNotProtobuf)
			}
			t.Origin = string(f.body)
		}
	}
	if t.EndLSN == 0 {
		return broken("end_lsn", problemMissing)
	}
	if t.CommitLSN == 0 {
		return broken("commit_lsn", problemMissing)
	}
	return readTime(&t.CommitTime, committed)
}

// readTime reads a google.protobuf.Timestamp; nil is the zero time.
func readTime(at *time.Time, body []byte) *FieldError {
	if body == nil {
		return nil
	}
	var stamp timestamppb.Timestamp
	for f := (fields{rest: body}); f.more(); {
		if !f.next() {
			return broken("commit_time", problemNotProtobuf)
		}
		switch {
		case f.isNumber(1):
			stamp.Seconds = int64(f.number)
		case f.isNumber(2):
			stamp.Nanos = int32(uint32(f.number))
		}
	}
	if !stamp.IsValid() {
		return broken("commit_time", "out of range")
	}
	*at = stamp.AsTime()
	return nil
}

// changeParts are the fields of a Change message as they were found; nil is absent.
type changeParts struct {
	op, relation, oldKind              uint64
	newRow, oldRow, truncated, message []byte
}

func (p *changeParts) read(body []byte) *FieldError {
	for f := (fields{rest: body}); f.more(); {
		if !f.next() {
			return broken("", problemNotProtobuf)
		}
		switch {
		case f.kind == protowire.VarintType:
			switch f.id {
			case 1:
				p.op = f.number
			case 2:
				p.relation = f.number
			case 5:
				p.oldKind = f.number
			}
		case f.kind == protowire.BytesType:
			part := p.part(f.id)
			if part == nil {
				continue
			}
			if *part != nil {
				return errUnusual
			}
			*part = f.body
		}
	}
	return nil
}

func (p *changeParts) part(id protowire.Number) *[]byte {
	switch id {
	case 3:
		return &p.newRow
	case 4:
		return &p.oldRow
	case 6:
		return &p.truncated
	case 7:
		return &p.message
	}
	return nil
}

// change reads one Change message onto the end of d.changes.
func (d *decoded) change(body []byte) *FieldError {
	var p changeParts
	if err := p.read(body); err != nil {
		return err
	}
	op := int32(uint32(p.op)) // enums are 32 bits wide
	if op < int32(core.OpInsert) || op > int32(core.OpMessage) {
		return broken("op", "unspecified or unknown")
	}
	d.changes = append(d.changes, core.Change{Op: core.Op(op)})
	c := &d.changes[len(d.changes)-1]
	err := d.fillChange(c, &p)
	if err != nil {
		d.changes = d.changes[:len(d.changes)-1]
	}
	return err
}

func (d *decoded) fillChange(c *core.Change, p *changeParts) *FieldError {
	if err := p.checkParts(c.Op); err != nil {
		return err
	}
	switch c.Op {
	case core.OpTruncate:
		return d.truncate(c, p.truncated)
	case core.OpMessage:
		c.Message = &core.Message{}
		if err := readMessage(c.Message, p.message); err != nil {
			return err.under("message")
		}
		return nil
	}
	index := uint32(p.relation)
	if int64(index) >= int64(len(d.table)) {
		return broken("relation_index", "not among the %d relations told", len(d.table))
	}
	c.Relation = d.table[index]
	if p.newRow != nil {
		if err := readRow(&c.New, p.newRow, len(c.Relation.Columns)); err != nil {
			return err.under("new_row")
		}
	}
	if p.oldRow != nil {
		c.OldKind = core.OldKind(p.oldKind)
		if err := readRow(&c.Old, p.oldRow, len(c.Relation.Columns)); err != nil {
			return err.under("old_row")
		}
	}
	return nil
}

// checkParts holds what is there against what the operation must and may have.
func (p *changeParts) checkParts(op core.Op) *FieldError {
	oldKind := int32(uint32(p.oldKind))
	if oldKind < int32(core.OldNone) || oldKind > int32(core.OldFull) {
		return broken("old_row_kind", "unknown")
	}
	p.oldKind = uint64(oldKind)
	needNew := op == core.OpInsert || op == core.OpUpdate
	mayOld := op == core.OpUpdate || op == core.OpDelete
	switch {
	case (p.newRow != nil) != needNew:
		return broken("new_row", "%s", presence(needNew))
	case p.oldRow != nil && !mayOld:
		return broken("old_row", "%s", presence(false))
	case p.oldRow == nil && op == core.OpDelete:
		return broken("old_row", problemMissing)
	case (p.oldRow != nil) != (oldKind != int32(core.OldNone)):
		return broken("old_row_kind", "does not fit old_row")
	case (p.truncated != nil) != (op == core.OpTruncate):
		return broken("truncate", "%s", presence(op == core.OpTruncate))
	case (p.message != nil) != (op == core.OpMessage):
		return broken("message", "%s", presence(op == core.OpMessage))
	}
	return nil
}

func presence(needed bool) string {
	if needed {
		return problemMissing
	}
	return "not allowed with this op"
}

// readRow takes a row as it is where it is laid out as our own side does, and packs it
// anew where it is not.
func readRow(tuple *core.Tuple, body []byte, columns int) *FieldError {
	parsed, err := core.ParseTuple(body)
	if err != nil {
		var row sinkv1.Row
		if proto.Unmarshal(body, &row) != nil {
			return broken("", problemNotProtobuf)
		}
		if parsed, err = packRow(&row); err != nil {
			return broken("", "a letter that is not known, or kinds and values that do not fit")
		}
	}
	if parsed.Len() != columns {
		return broken("kinds", "%d letters for %d columns", parsed.Len(), columns)
	}
	*tuple = parsed
	return nil
}

func packRow(row *sinkv1.Row) (core.Tuple, error) {
	if len(row.GetKinds()) != len(row.GetValues()) {
		return core.Tuple{}, core.ErrBadTuple
	}
	packed, err := proto.Marshal(&sinkv1.Row{Kinds: row.GetKinds(), Values: row.GetValues()})
	if err != nil {
		return core.Tuple{}, err
	}
	return core.ParseTuple(packed)
}

func (d *decoded) truncate(c *core.Change, body []byte) *FieldError {
	var message sinkv1.Truncate
	if proto.Unmarshal(body, &message) != nil {
		return broken("truncate", problemNotProtobuf)
	}
	c.Truncate = &core.Truncate{Cascade: message.GetCascade(), RestartIdentity: message.GetRestartIdentity()}
	if len(message.GetRelationIndexes()) == 0 {
		return broken("truncate.relation_indexes", problemMissing)
	}
	for i, index := range message.GetRelationIndexes() {
		if int64(index) >= int64(len(d.table)) {
			return broken("", "not among the %d relations told", len(d.table)).
				underIndex("truncate.relation_indexes", i)
		}
		c.Truncate.Relations = append(c.Truncate.Relations, d.table[index])
	}
	return nil
}

func readMessage(m *core.Message, body []byte) *FieldError {
	var message sinkv1.LogicalMessage
	if proto.Unmarshal(body, &message) != nil {
		return broken("", problemNotProtobuf)
	}
	if message.GetLsn() == 0 {
		return broken("lsn", problemMissing)
	}
	*m = core.Message{
		Transactional: message.GetTransactional(), LSN: core.LSN(message.GetLsn()),
		Prefix: message.GetPrefix(), Content: message.GetContent(),
	}
	return nil
}

const senderBytes = 16

// instanceBytesMax bounds the instance id, which we echo in every call.
const instanceBytesMax = 64

// readCall reads a StreamContext.
func readCall(call *core.Call, body []byte) *FieldError {
	if body == nil {
		return broken("", problemMissing)
	}
	var message sinkv1.StreamContext
	if proto.Unmarshal(body, &message) != nil {
		return broken("", problemNotProtobuf)
	}
	return callFromProto(call, &message)
}

func callFromProto(call *core.Call, m *sinkv1.StreamContext) *FieldError {
	switch {
	case m == nil:
		return broken("", problemMissing)
	case m.GetStreamId() == "":
		return broken("stream_id", problemMissing)
	case m.GetCheckpointOwner() != sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SINK &&
		m.GetCheckpointOwner() != sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SIDECAR:
		return broken("checkpoint_owner", "unspecified or unknown")
	case len(m.GetSenderId()) != senderBytes:
		return broken("sender_id", "not %d bytes", senderBytes)
	case len(m.GetInstanceId()) > instanceBytesMax:
		return broken("instance_id", "longer than %d bytes", instanceBytesMax)
	}
	*call = core.Call{
		StreamID: m.GetStreamId(), Owner: core.CheckpointOwner(m.GetCheckpointOwner()),
		Epoch: m.GetEpoch(), SenderID: [16]byte(m.GetSenderId()), Sequence: m.GetSequence(),
		InstanceID: m.GetInstanceId(),
	}
	return nil
}

func callToProto(c *core.Call) *sinkv1.StreamContext {
	return &sinkv1.StreamContext{
		StreamId: c.StreamID, CheckpointOwner: sinkv1.CheckpointOwner(c.Owner), Epoch: c.Epoch,
		SenderId: c.SenderID[:], Sequence: c.Sequence, InstanceId: c.InstanceID,
	}
}
