package core

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTupleRoundTrip(t *testing.T) {
	long := bytes.Repeat([]byte{0xff, 0}, 40_000)
	in := []Value{Text("a"), Null(), {Kind: ValueUnchanged}, {Kind: ValueAbsent}, Text(""), {Kind: ValueText, Text: long}}
	packed := PackTuple(in...)
	require.Equal(t, "tnuatt", string(packed.Kinds()))
	parsed, err := ParseTuple(packed.Packed())
	require.NoError(t, err)
	require.Equal(t, packed, parsed)
	for i, v := range parsed.Values() {
		require.Equal(t, in[i].Kind, v.Kind)
		require.True(t, bytes.Equal(in[i].Text, v.Text), "column %d", i)
		require.Equal(t, v, parsed.Value(i))
	}
	require.True(t, parsed.Has(ValueNull))
	require.False(t, PackTuple(Text("x")).Has(ValueNull))
}

func TestTupleWithoutColumnsIsAnImage(t *testing.T) {
	empty := PackTuple()
	require.False(t, empty.IsZero())
	require.Zero(t, empty.Len())
	require.True(t, Tuple{}.IsZero())
	parsed, err := ParseTuple(nil)
	require.NoError(t, err)
	require.False(t, parsed.IsZero())
}

func TestParseTupleRefusesEveryPrefixAndUnknownLetters(t *testing.T) {
	whole := PackTuple(Text("abc"), Null(), Text("defg")).Packed()
	for n := 1; n < len(whole); n++ {
		_, err := ParseTuple(whole[:n])
		require.ErrorIs(t, err, ErrBadTuple, "prefix of %d bytes", n)
	}
	_, err := ParseTuple(append(bytes.Clone(whole), 0))
	require.ErrorIs(t, err, ErrBadTuple)
	bad := bytes.Clone(whole)
	bad[2] = 'x'
	_, err = ParseTuple(bad)
	require.ErrorIs(t, err, ErrBadTuple)
	nullWithBytes := bytes.Clone(whole)
	nullWithBytes[2] = 'n'
	_, err = ParseTuple(nullWithBytes)
	require.ErrorIs(t, err, ErrBadTuple)
}

func FuzzParseTuple(f *testing.F) {
	f.Add(PackTuple(Text("abc"), Null()).Packed())
	f.Add([]byte{0x0a, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, packed []byte) {
		tuple, err := ParseTuple(packed)
		if err != nil {
			return
		}
		n := 0
		for i, v := range tuple.Values() {
			require.Equal(t, tuple.Kind(i), v.Kind)
			n++
		}
		require.Equal(t, tuple.Len(), n)
	})
}
