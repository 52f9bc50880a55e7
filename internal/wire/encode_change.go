package wire

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// relationTable numbers the relations of one request, or of one client stream, in the
// order of first use. Relations are told apart by pointer: a new description is a new
// pointer.
type relationTable struct {
	list      []*core.Relation
	index     map[*core.Relation]uint32
	last      *core.Relation
	lastIndex uint32
}

func (t *relationTable) reset() {
	clear(t.list)
	t.list, t.last = t.list[:0], nil
	clear(t.index)
}

func (t *relationTable) indexOf(relation *core.Relation) (uint32, error) {
	if relation == t.last && relation != nil {
		return t.lastIndex, nil
	}
	if relation == nil {
		return 0, ErrNoRelation
	}
	i, known := t.index[relation]
	if !known {
		if len(t.list) >= core.RelationsMax {
			return 0, ErrTooManyRelations
		}
		if t.index == nil {
			t.index = make(map[*core.Relation]uint32)
		}
		i = uint32(len(t.list))
		t.index[relation] = i
		t.list = append(t.list, relation)
	}
	t.last, t.lastIndex = relation, i
	return i, nil
}

// measureChange counts the Change message of c.
func (t *relationTable) measureChange(c *core.Change) (plannedChange, error) {
	planned := plannedChange{body: sizeNumber(uint64(c.Op)) + sizeNumber(uint64(c.OldKind))}
	if c.Op != core.OpTruncate && c.Op != core.OpMessage {
		index, err := t.indexOf(c.Relation)
		if err != nil {
			return planned, err
		}
		planned.relation = index
		planned.body += sizeNumber(uint64(index))
	}
	if !c.New.IsZero() {
		planned.body += sizeBytes(len(c.New.Packed()))
	}
	if !c.Old.IsZero() {
		planned.body += sizeBytes(len(c.Old.Packed()))
	}
	if c.Truncate != nil {
		body, err := t.measureTruncate(c.Truncate)
		if err != nil {
			return planned, err
		}
		planned.body += sizeBytes(body)
	}
	if c.Message != nil {
		planned.body += sizeBytes(sizeMessage(c.Message))
	}
	return planned, nil
}

func (t *relationTable) appendChange(dst []byte, c *core.Change, planned plannedChange) []byte {
	dst = appendNumber(dst, 1, uint64(c.Op))
	dst = appendNumber(dst, 2, uint64(planned.relation))
	if !c.New.IsZero() {
		row := c.New.Packed()
		dst = append(appendHead(dst, 3, len(row)), row...)
	}
	if !c.Old.IsZero() {
		row := c.Old.Packed()
		dst = append(appendHead(dst, 4, len(row)), row...)
	}
	dst = appendNumber(dst, 5, uint64(c.OldKind))
	if c.Truncate != nil {
		body, _ := t.measureTruncate(c.Truncate) // every index is known by now
		dst = appendHead(dst, 6, body)
		dst = t.appendTruncate(dst, c.Truncate)
	}
	if c.Message != nil {
		dst = appendHead(dst, 7, sizeMessage(c.Message))
		dst = appendMessage(dst, c.Message)
	}
	return dst
}

func (t *relationTable) measureTruncate(truncate *core.Truncate) (int, error) {
	indexes, err := t.measureIndexes(truncate)
	if err != nil {
		return 0, err
	}
	return sizeBytesSet(indexes) + sizeNumber(boolNumber(truncate.Cascade)) +
		sizeNumber(boolNumber(truncate.RestartIdentity)), nil
}

func (t *relationTable) measureIndexes(truncate *core.Truncate) (int, error) {
	size := 0
	for _, relation := range truncate.Relations {
		index, err := t.indexOf(relation)
		if err != nil {
			return 0, err
		}
		size += sizeVarint(uint64(index))
	}
	return size, nil
}

func (t *relationTable) appendTruncate(dst []byte, truncate *core.Truncate) []byte {
	if indexes, _ := t.measureIndexes(truncate); indexes > 0 {
		dst = appendHead(dst, 1, indexes)
		for _, relation := range truncate.Relations {
			index, _ := t.indexOf(relation)
			dst = binary.AppendUvarint(dst, uint64(index))
		}
	}
	dst = appendNumber(dst, 2, boolNumber(truncate.Cascade))
	return appendNumber(dst, 3, boolNumber(truncate.RestartIdentity))
}

func sizeMessage(m *core.Message) int {
	return sizeNumber(boolNumber(m.Transactional)) + sizeNumber(uint64(m.LSN)) +
		sizeBytesSet(len(m.Prefix)) + sizeBytesSet(len(m.Content))
}

func appendMessage(dst []byte, m *core.Message) []byte {
	dst = appendNumber(dst, 1, boolNumber(m.Transactional))
	dst = appendNumber(dst, 2, uint64(m.LSN))
	dst = appendBytesSet(dst, 3, m.Prefix)
	return appendBytesSet(dst, 4, m.Content)
}

// A StreamContext. The sender id is always there, all 16 bytes of it.

func sizeCall(c *core.Call) int {
	return sizeBytesSet(len(c.StreamID)) + sizeNumber(uint64(c.Owner)) + sizeNumber(c.Epoch) +
		sizeBytes(len(c.SenderID)) + sizeNumber(c.Sequence) + sizeBytesSet(len(c.InstanceID))
}

func appendCall(dst []byte, c *core.Call) []byte {
	dst = appendStringSet(dst, 1, c.StreamID)
	dst = appendNumber(dst, 2, uint64(c.Owner))
	dst = appendNumber(dst, 3, c.Epoch)
	dst = append(appendHead(dst, 4, len(c.SenderID)), c.SenderID[:]...)
	dst = appendNumber(dst, 5, c.Sequence)
	return appendBytesSet(dst, 6, c.InstanceID)
}

// An optional bytes field: nil is absent, empty is present.

func sizeOptionalBytes(body []byte) int {
	if body == nil {
		return 0
	}
	return sizeBytes(len(body))
}

func appendOptionalBytes(dst []byte, field protowire.Number, body []byte) []byte {
	if body == nil {
		return dst
	}
	return append(appendHead(dst, field, len(body)), body...)
}
