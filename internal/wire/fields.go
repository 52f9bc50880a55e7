package wire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// fields walks a message field by field. After next the field is in id, kind and
// number (varints) or body (length-delimited). Other kinds are never fields of ours;
// they are stepped over.
type fields struct {
	rest   []byte
	id     protowire.Number
	kind   protowire.Type
	number uint64
	body   []byte
}

func (f *fields) more() bool { return len(f.rest) > 0 }

// next reads one field. It reports false when the bytes are no protobuf message.
func (f *fields) next() bool {
	// Nearly every field has a tag of one byte and a number or length of one byte.
	if b := f.rest; len(b) >= 2 && b[0]-8 < 0x78 && b[1] < 0x80 {
		switch protowire.Type(b[0] & 7) {
		case protowire.VarintType:
			f.id, f.kind, f.number = protowire.Number(b[0]>>3), protowire.VarintType, uint64(b[1])
			f.rest = b[2:]
			return true
		case protowire.BytesType:
			if end := 2 + int(b[1]); end <= len(b) {
				f.id, f.kind, f.body = protowire.Number(b[0]>>3), protowire.BytesType, b[2:end:end]
				f.rest = b[end:]
				return true
			}
			return false
		}
	}
	return f.nextSlow()
}

func (f *fields) nextSlow() bool {
	id, kind, n := protowire.ConsumeTag(f.rest)
	if n < 0 || kind == protowire.EndGroupType {
		return false
	}
	f.rest = f.rest[n:]
	f.id, f.kind = id, kind
	switch kind {
	case protowire.VarintType:
		f.number, n = protowire.ConsumeVarint(f.rest)
	case protowire.BytesType:
		f.body, n = protowire.ConsumeBytes(f.rest)
	default:
		n = protowire.ConsumeFieldValue(id, kind, f.rest)
	}
	if n < 0 {
		return false
	}
	f.body = f.body[:len(f.body):len(f.body)]
	f.rest = f.rest[n:]
	return true
}

func (f *fields) isNumber(id protowire.Number) bool {
	return f.id == id && f.kind == protowire.VarintType
}

func (f *fields) isBytes(id protowire.Number) bool {
	return f.id == id && f.kind == protowire.BytesType
}
