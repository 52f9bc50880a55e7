package pipeline

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// The bytes of a resume state: a head, records, and a checksum of both. What many tables
// have in common is written once and referred to by its number, and a later record of a
// relation replaces an earlier one. So a new shape is appended, and nothing is written
// anew for it.
const (
	resumeMagic = "\x00rs2" // the form before it was JSON, which cannot begin so
	sumBytes    = 4
)

// Records.
const (
	recordSchema   = 's' // name
	recordColumn   = 'c' // name, type, modifier, key
	recordLayout   = 'l' // count, columns
	recordRelation = 'r' // OID, schema, name, identity, layout
)

type columnKey struct {
	name     string
	typeOID  uint32
	modifier int32
	identity bool
}

// resumeLog is what was written so far, without the checksum, and the numbers given out.
type resumeLog struct {
	written []byte
	schemas map[string]uint64
	columns map[columnKey]uint64
	layouts map[string]uint64
}

func newResumeLog(timeline uint32, relations []*core.Relation) *resumeLog {
	l := &resumeLog{schemas: map[string]uint64{}, columns: map[columnKey]uint64{}, layouts: map[string]uint64{}}
	l.written = binary.AppendUvarint([]byte(resumeMagic), uint64(timeline))
	for _, r := range relations {
		l.add(r)
	}
	return l
}

// add appends a relation.
func (l *resumeLog) add(r *core.Relation) {
	record := l.record(nil, r)
	l.written = append(l.written, record...)
}

// with is the whole with relations that are not added yet.
func (l *resumeLog) with(more []*core.Relation) []byte {
	var records []byte
	for _, r := range more {
		records = l.record(records, r)
	}
	b := make([]byte, 0, len(l.written)+len(records)+sumBytes)
	b = append(append(b, l.written...), records...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// record appends the record of r to b, and what it refers to, where that is new, to what
// is written: a number that nobody uses does no harm.
func (l *resumeLog) record(b []byte, r *core.Relation) []byte {
	schema := number(l.schemas, r.Schema, func() { l.written = appendText(append(l.written, recordSchema), r.Schema) })
	layout := binary.AppendUvarint(nil, uint64(len(r.Columns)))
	for i := range r.Columns {
		c := &r.Columns[i]
		key := columnKey{c.Name, c.TypeOID, c.TypeModifier, c.Identity}
		layout = binary.AppendUvarint(layout, number(l.columns, key, func() { l.column(key) }))
	}
	of := number(l.layouts, string(layout), func() { l.written = append(append(l.written, recordLayout), layout...) })
	b = binary.AppendUvarint(append(b, recordRelation), uint64(r.OID))
	b = appendText(binary.AppendUvarint(b, schema), r.Name)
	return binary.AppendUvarint(append(b, byte(r.Identity)), of)
}

func (l *resumeLog) column(c columnKey) {
	b := appendText(append(l.written, recordColumn), c.name)
	b = binary.AppendVarint(binary.AppendUvarint(b, uint64(c.typeOID)), int64(c.modifier))
	l.written = append(b, flag(c.identity))
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// number is the number of key; where it has none yet, write defines the next one.
func number[K comparable](numbers map[K]uint64, key K, write func()) uint64 {
	n, known := numbers[key]
	if !known {
		write()
		n = uint64(len(numbers))
		numbers[key] = n
	}
	return n
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// resumeReader reads what resumeLog wrote; once failed it stays so.
type resumeReader struct {
	rest    []byte
	failed  bool
	schemas []string
	columns []core.Column
	layouts [][]core.Column
}

// readResumeLog reports false for anything that resumeLog does not write.
func readResumeLog(b []byte) (state resumeState, ok bool) {
	whole := len(b) - sumBytes
	if whole < len(resumeMagic) || crc32.ChecksumIEEE(b[:whole]) != binary.BigEndian.Uint32(b[whole:]) {
		return state, false
	}
	r := &resumeReader{rest: b[len(resumeMagic):whole]}
	state.Timeline = uint32(r.number())
	byOID := map[uint32]*core.Relation{}
	for len(r.rest) > 0 && !r.failed {
		switch r.byte() {
		case recordSchema:
			r.schemas = append(r.schemas, r.text())
		case recordColumn:
			r.columns = append(r.columns, core.Column{
				Name: r.text(), TypeOID: uint32(r.number()), TypeModifier: int32(r.signed()), Identity: r.byte() == 1,
			})
		case recordLayout:
			var layout []core.Column
			for n := r.number(); n > 0 && !r.failed; n-- {
				layout = append(layout, *of(r, r.columns))
			}
			r.layouts = append(r.layouts, layout)
		case recordRelation:
			relation := &core.Relation{
				OID: uint32(r.number()), Schema: *of(r, r.schemas), Name: r.text(),
				Identity: core.ReplicaIdentity(r.byte()), Columns: slices.Clone(*of(r, r.layouts)),
			}
			byOID[relation.OID] = relation
		default:
			r.failed = true
		}
	}
	state.Relations = inOrder(byOID)
	return state, !r.failed
}

// of is the entry that the next number names.
func of[T any](r *resumeReader, list []T) *T {
	if n := r.number(); n < uint64(len(list)) {
		return &list[n]
	}
	r.failed = true
	return new(T)
}

func (r *resumeReader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.skip(n)
	return v
}

func (r *resumeReader) signed() int64 {
	v, n := binary.Varint(r.rest)
	r.skip(n)
	return v
}

func (r *resumeReader) byte() byte {
	if len(r.rest) == 0 {
		r.failed = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *resumeReader) text() string {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.failed = true
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

func (r *resumeReader) skip(n int) {
	if n <= 0 {
		r.failed, r.rest = true, nil
		return
	}
	r.rest = r.rest[n:]
}
