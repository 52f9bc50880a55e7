package pgoutput

import (
	"strings"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/stretchr/testify/require"
)

// The messages of transactions in progress by hand.
var streamLayouts = []struct {
	name  string
	frame string
	want  Message
}{
	{"stream start, first", "S\x00\x00\x10\x01\x01", Message{Kind: KindStreamStart, XID: 4097, First: true}},
	{"stream start, again", "S\xff\xff\xff\xff\x00", Message{Kind: KindStreamStart, XID: 1<<32 - 1}},
	{"stream stop", "E", Message{Kind: KindStreamStop}},
	{"stream commit", "c\x00\x00\x10\x01\x00" + "\x00\x00\x00\x01\x00\x00\x00\x02" + "\x00\x00\x00\x01\x00\x00\x00\x30" + "\x00\x00\x00\x00\x00\x00\x00\x05",
		Message{Kind: KindStreamCommit, XID: 4097, LSN: 1<<32 | 2, EndLSN: 1<<32 | 0x30, Time: 5}},
	{"stream abort", "A\x00\x00\x10\x01\x00\x00\x10\x02", Message{Kind: KindStreamAbort, XID: 4097, SubXID: 4098}},
	{"stream abort, long", "A\x00\x00\x10\x01\x00\x00\x10\x01" + "\x00\x00\x00\x00\x00\x00\x00\x07" + "\x00\x00\x00\x00\x00\x00\x00\x06",
		Message{Kind: KindStreamAbort, XID: 4097, SubXID: 4097, LSN: 7, Time: 6}},
}

// inBlock is a decoder between Stream Start of transaction 4097 and its Stop.
func inBlock(t testing.TB) *Decoder {
	d := NewDecoder(Options{Streaming: true})
	var m Message
	require.NoError(t, d.Decode([]byte(streamLayouts[0].frame), &m))
	return d
}

func TestStreamLayouts(t *testing.T) {
	for _, l := range streamLayouts {
		t.Run(l.name, func(t *testing.T) {
			m := Message{SubXID: 9, EndLSN: 9, Body: []byte("left over"), HasNew: true}
			require.NoError(t, NewDecoder(Options{Streaming: true}).Decode([]byte(l.frame), &m))
			require.Equal(t, l.want, m)
			require.Equal(t, l.frame, string(encode(&m)))
			for n := range len(l.frame) {
				if l.frame[0] == 'A' && n == 9 {
					continue // the short form
				}
				requireStreamHalt(t, core.HaltMalformedStream, l.frame[:n])
			}
			requireStreamHalt(t, core.HaltMalformedStream, l.frame+"\x00")
		})
	}
}

func requireStreamHalt(t *testing.T, code core.HaltCode, frame string) {
	t.Helper()
	var m Message
	requireCode(t, code, NewDecoder(Options{Streaming: true}).Decode([]byte(frame), &m))
}

func TestUnlawfulStreamMessagesHalt(t *testing.T) {
	for name, frame := range map[string]string{
		"first of 2":         "S\x00\x00\x10\x01\x02",
		"start without id":   "S\x00\x00\x00\x00\x01",
		"commit flags":       strings.Replace(streamLayouts[3].frame, "\x01\x00\x00\x00\x00\x01", "\x01\x01\x00\x00\x00\x01", 1),
		"commit without id":  "c\x00\x00\x00\x00" + streamLayouts[3].frame[5:],
		"abort without top":  "A\x00\x00\x00\x00\x00\x00\x10\x02",
		"abort without sub":  "A\x00\x00\x10\x01\x00\x00\x00\x00",
		"long abort at zero": streamLayouts[5].frame[:9] + strings.Repeat("\x00", 16),
	} {
		t.Run(name, func(t *testing.T) { requireStreamHalt(t, core.HaltMalformedStream, frame) })
	}
	for _, letter := range "bPKrp" {
		requireStreamHalt(t, core.HaltUnsupportedMessage, string(letter)+strings.Repeat("\x01", 40))
	}
}

// Inside a block every message but Origin has the subtransaction's id behind its tag, and
// is laid out as ever behind that.
func TestLayoutsInsideABlock(t *testing.T) {
	const sub = "\x00\x00\x10\x07"
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) {
			frame, want := l.frame, l.want
			if want.Kind.streamed() {
				frame = frame[:1] + sub + frame[1:]
				want.XID, want.SubXID, want.Body = 4097, 4103, []byte(l.frame[1:])
			}
			var m Message
			require.NoError(t, inBlock(t).Decode([]byte(frame), &m))
			require.Equal(t, want, m)
			require.Equal(t, frame, string(encode(&m)))
			if want.SubXID == 0 {
				return
			}
			for n := range len(frame) {
				requireCode(t, core.HaltMalformedStream, inBlock(t).Decode([]byte(frame[:n]), &m))
			}
			requireCode(t, core.HaltMalformedStream, inBlock(t).Decode([]byte(frame+"\x00"), &m))
			requireCode(t, core.HaltMalformedStream, inBlock(t).Decode([]byte(frame[:1]+"\x00\x00\x00\x00"+frame[5:]), &m))
		})
	}
}

// A block ends with Stream Stop, and a fresh decoder stands outside of any.
func TestBlocksEnd(t *testing.T) {
	d := inBlock(t)
	insert := []byte(layouts[6].frame)
	var m Message
	requireCode(t, core.HaltMalformedStream, d.Decode(insert, &m))
	require.NoError(t, d.Decode([]byte("E"), &m))
	require.NoError(t, d.Decode(insert, &m))
	require.Nil(t, m.Body)
	require.NoError(t, NewDecoder(Options{Streaming: true}).Decode(insert, &m))
}

func TestHaltInsideABlockTellsTheTransaction(t *testing.T) {
	var m Message
	halt, ok := core.AsHalt(inBlock(t).Decode([]byte("I\x00\x00\x10\x07\x00\x00\x40\x00N\x00\x02t\x00\x00\x00\x07hunter2"), &m))
	require.True(t, ok)
	require.EqualValues(t, 4097, halt.XID)
	require.NotContains(t, halt.Error(), "hunter2")
}

func TestStreamedRowsAllocateNothing(t *testing.T) {
	d := inBlock(t)
	frame := []byte("I\x00\x00\x10\x07\x00\x00\x40\x00N\x00\x02t\x00\x00\x00\x01xn")
	var m Message
	require.NoError(t, d.Decode(frame, &m))
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = d.Decode(frame, &m) }))
}
