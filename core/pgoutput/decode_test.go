package pgoutput

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/stretchr/testify/require"
)

// The layouts by hand, so that decoder and test encoder cannot share a mistake.
var layouts = []struct {
	name  string
	frame string
	want  Message
}{
	{"begin", "B\x00\x00\x00\x01\x00\x00\x00\x02" + "\x00\x00\x00\x00\x00\x00\x00\x05" + "\x00\x00\x10\x01",
		Message{Kind: KindBegin, LSN: 1<<32 | 2, Time: 5, XID: 4097}},
	{"commit", "C\x00" + "\x00\x00\x00\x01\x00\x00\x00\x02" + "\x00\x00\x00\x01\x00\x00\x00\x30" + "\xff\xff\xff\xff\xff\xff\xff\xff",
		Message{Kind: KindCommit, LSN: 1<<32 | 2, EndLSN: 1<<32 | 0x30, Time: -1}},
	{"origin", "O\x00\x00\x00\x00\x00\x00\x00\x09up stream\x00",
		Message{Kind: KindOrigin, LSN: 9, Origin: "up stream"}},
	{"relation", "R\x00\x00\x40\x00public\x00t\x00d\x00\x02" + "\x01id\x00\x00\x00\x00\x17\xff\xff\xff\xff" + "\x00v\x00\x00\x00\x04\x13\x00\x00\x00\x0e",
		Message{Kind: KindRelation, RelationOID: 16384, Relation: &core.Relation{OID: 16384, Schema: "public", Name: "t", Identity: core.IdentityDefault,
			Columns: []core.Column{{Name: "id", TypeOID: 23, TypeModifier: -1, Identity: true}, {Name: "v", TypeOID: 1043, TypeModifier: 14}}}}},
	{"relation without columns", "R\x00\x00\x40\x00\x00t\x00n\x00\x00",
		Message{Kind: KindRelation, RelationOID: 16384, Relation: &core.Relation{OID: 16384, Name: "t", Identity: core.IdentityNothing, Columns: []core.Column{}}}},
	{"type", "Y\x00\x00\x40\x01\x00int4\x00", Message{Kind: KindType, Type: &Type{OID: 16385, Name: "int4"}}},
	{"insert", "I\x00\x00\x40\x00N\x00\x02t\x00\x00\x00\x01xn",
		Message{Kind: KindInsert, RelationOID: 16384, HasNew: true, New: Tuple{Columns: 2, Raw: []byte("t\x00\x00\x00\x01xn")}}},
	{"insert without columns", "I\x00\x00\x40\x00N\x00\x00",
		Message{Kind: KindInsert, RelationOID: 16384, HasNew: true, New: Tuple{Raw: []byte{}}}},
	{"update", "U\x00\x00\x40\x00N\x00\x02u" + "t\x00\x00\x00\x00",
		Message{Kind: KindUpdate, RelationOID: 16384, HasNew: true, New: Tuple{Columns: 2, Unchanged: true, Raw: []byte("ut\x00\x00\x00\x00")}}},
	{"update with key", "U\x00\x00\x40\x00K\x00\x01n" + "N\x00\x01u",
		Message{Kind: KindUpdate, RelationOID: 16384, OldKind: OldKey, Old: Tuple{Columns: 1, Raw: []byte("n")}, HasNew: true, New: Tuple{Columns: 1, Unchanged: true, Raw: []byte("u")}}},
	{"delete", "D\x00\x00\x40\x00O\x00\x01n",
		Message{Kind: KindDelete, RelationOID: 16384, OldKind: OldRow, Old: Tuple{Columns: 1, Raw: []byte("n")}}},
	{"truncate", "T\x00\x00\x00\x02\x03\x00\x00\x40\x00\x00\x00\x40\x01",
		Message{Kind: KindTruncate, Truncate: &Truncate{OIDs: []uint32{16384, 16385}, Cascade: true, RestartIdentity: true}}},
	{"message", "M\x01\x00\x00\x00\x00\x00\x00\x00\x07pre\x00\x00\x00\x00\x02\x00\xff",
		Message{Kind: KindMessage, LSN: 7, Message: &LogicalMessage{Transactional: true, Prefix: []byte("pre"), Content: []byte("\x00\xff")}}},
}

func TestLayouts(t *testing.T) {
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) {
			m := Message{XID: 9, EndLSN: 9, Origin: "left over", HasNew: true, OldKind: 'K', Type: &Type{}}
			require.NoError(t, NewDecoder(Options{}).Decode([]byte(l.frame), &m))
			require.Equal(t, l.want, m)
			require.Equal(t, l.frame, string(encode(&m)))
		})
	}
}

// Every byte must be accounted for: no proper prefix and no longer frame is a message.
func TestPrefixesAndTrailingBytesHalt(t *testing.T) {
	for _, l := range layouts {
		for n := range len(l.frame) {
			requireHalt(t, core.HaltMalformedStream, []byte(l.frame[:n]), "%s cut to %d bytes", l.name, n)
		}
		requireHalt(t, core.HaltMalformedStream, []byte(l.frame+"\x00"), "%s with a byte more", l.name)
	}
}

func requireHalt(t *testing.T, code core.HaltCode, frame []byte, format string, args ...any) *core.Halt {
	t.Helper()
	var m Message
	err := NewDecoder(Options{}).Decode(frame, &m)
	halt, ok := core.AsHalt(err)
	require.True(t, ok, format, args)
	require.Equal(t, code, halt.Code, format, args)
	return halt
}

func TestUnknownLettersAndFlagsHalt(t *testing.T) {
	const relation = "R\x00\x00\x40\x00s\x00t\x00"
	for name, frame := range map[string]string{
		"commit flags":           "C\x01" + strings.Repeat("\x00", 24),
		"replica identity":       relation + "x\x00\x00",
		"column flags":           relation + "d\x00\x01\x02id\x00\x00\x00\x00\x17\xff\xff\xff\xff",
		"relation of 1601":       relation + "d\x06\x41" + strings.Repeat("\x00c\x00\x00\x00\x00\x17\xff\xff\xff\xff", 1601),
		"more columns than room": relation + "d\x06\x40",
		"insert without N":       "I\x00\x00\x40\x00K\x00\x00",
		"update without N":       "U\x00\x00\x40\x00K\x00\x00O\x00\x00",
		"delete with N":          "D\x00\x00\x40\x00N\x00\x00",
		"column letter":          "I\x00\x00\x40\x00N\x00\x01a",
		"tuple of 1601":          "I\x00\x00\x40\x00N\x06\x41" + strings.Repeat("n", 1601),
		"negative length":        "I\x00\x00\x40\x00N\x00\x01t\xff\xff\xff\xffx",
		"truncate of none":       "T\x00\x00\x00\x00\x00",
		"truncate options":       "T\x00\x00\x00\x01\x04\x00\x00\x40\x00",
		"truncate count":         "T\x40\x00\x00\x01\x00\x00\x00\x40\x00",
		"message flags":          "M\x02\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00",
		"message length":         "M\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\xff\xff\xff\xff",
	} {
		requireHalt(t, core.HaltMalformedStream, []byte(frame), "%s", name)
	}
}

func TestTupleOfAsManyColumnsAsATableCanHave(t *testing.T) {
	var m Message
	frame := "I\x00\x00\x40\x00N\x06\x40" + strings.Repeat("n", core.ColumnsMax)
	require.NoError(t, NewDecoder(Options{}).Decode([]byte(frame), &m))
	require.Equal(t, core.ColumnsMax, m.New.Columns)
}

// The messages of protocol 2 to 4, and any that is not documented, stop the stream
// before a later commit can be acknowledged.
func TestOtherMessagesAreUnsupported(t *testing.T) {
	known := "BCORYIUDTMA"
	for tag := range 256 {
		if strings.IndexByte(known, byte(tag)) >= 0 {
			continue
		}
		requireHalt(t, core.HaltUnsupportedMessage, append([]byte{byte(tag)}, make([]byte, 29)...), "tag 0x%02x", tag)
	}
	for _, letter := range "SEcbPKrp" {
		require.NotEqual(t, "unknown", Kind(letter).String())
	}
	requireHalt(t, core.HaltUnsupportedMessage, []byte("I\x00\x00\x40\x00N\x00\x01b\x00\x00\x00\x01x"), "binary column")
}

func TestX02StreamAbortOutsideOfATransactionIsPassedOver(t *testing.T) {
	d := NewDecoder(Options{})
	var m Message
	begin, commit := []byte(layouts[0].frame), []byte(layouts[1].frame)
	for _, size := range []int{9, 25} {
		require.NoError(t, d.Decode(append([]byte{'A'}, make([]byte, size-1)...), &m))
		require.Equal(t, Message{Kind: KindStreamAbort}, m)
	}
	require.EqualValues(t, 2, d.Ignored())
	require.NoError(t, d.Decode(begin, &m))
	require.NoError(t, d.Decode(commit, &m))
	require.NoError(t, d.Decode(append([]byte{'A'}, make([]byte, 8)...), &m))
	require.EqualValues(t, 3, d.Ignored())
	for _, size := range []int{1, 8, 10, 24, 26} {
		requireHalt(t, core.HaltMalformedStream, append([]byte{'A'}, make([]byte, size-1)...), "abort of %d bytes", size)
	}

	require.NoError(t, d.Decode(begin, &m))
	halt, ok := core.AsHalt(d.Decode(append([]byte{'A'}, make([]byte, 8)...), &m))
	require.True(t, ok)
	require.Equal(t, core.HaltUnsupportedMessage, halt.Code)
	require.EqualValues(t, 3, d.Ignored())
}

func TestHaltTellsThePlaceAndNoValue(t *testing.T) {
	d := NewDecoder(Options{})
	var m Message
	require.NoError(t, d.Decode([]byte(layouts[0].frame), &m))
	secret := "hunter2"
	for _, frame := range []string{
		"I\x00\x00\x40\x00N\x00\x02t\x00\x00\x00\x07" + secret + "t\x00\x00\x00\x09" + secret,
		"M\x01\x00\x00\x00\x00\x00\x00\x00\x07" + secret + "\x00\x00\x00\x00\x01" + secret,
		"Y\x00\x00\x40\x01" + secret + "\x00" + secret,
		"O\x00\x00\x00\x00\x00\x00\x00\x09" + secret,
	} {
		halt, ok := core.AsHalt(d.Decode([]byte(frame), &m))
		require.True(t, ok)
		require.EqualValues(t, 4097, halt.XID)
		require.EqualValues(t, 1<<32|2, halt.LSN)
		require.NotContains(t, halt.Error(), secret)
		require.NotContains(t, fmt.Sprintf("%+v", halt), secret)
		require.NotContains(t, fmt.Sprintf("%+v", halt), fmt.Sprint([]byte(secret[:3])))
	}
}

func TestSizeCap(t *testing.T) {
	var m Message
	frame := []byte(layouts[6].frame)
	d := NewDecoder(Options{})
	require.Equal(t, 1<<30+25, d.limit)
	d.limit = len(frame)
	require.NoError(t, d.Decode(frame, &m))
	d.limit--
	halt, ok := core.AsHalt(d.Decode(frame, &m))
	require.True(t, ok)
	require.Equal(t, core.HaltMalformedStream, halt.Code)
	require.Contains(t, halt.Detail, "above the limit")
}

func TestTime(t *testing.T) {
	require.Equal(t, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), Time(0))
	require.Equal(t, time.Date(2024, 5, 17, 12, 34, 56, 789_012_000, time.UTC), Time(769_264_496_789_012))
	require.Equal(t, time.Date(1999, 12, 31, 23, 59, 59, 999_999_000, time.UTC), Time(-1))
	_, _ = Time(-1<<63), Time(1<<63-1) // any count is a time
}

func TestHotMessagesAllocateNothing(t *testing.T) {
	d := NewDecoder(Options{})
	var m Message
	for _, l := range layouts {
		if !bytes.ContainsAny([]byte(l.frame[:1]), "BCIUD") {
			continue
		}
		frame := []byte(l.frame)
		require.Zero(t, testing.AllocsPerRun(100, func() { _ = d.Decode(frame, &m) }), l.name)
	}
}
