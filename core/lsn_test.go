package core

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLSNText(t *testing.T) {
	for text, want := range map[string]LSN{
		"0/0": 0, "0/1": 1, "16/B374D848": 0x16B374D848, "FFFFFFFF/FFFFFFFF": 1<<64 - 1, "a/b": 0xA0000000B,
	} {
		got, err := ParseLSN(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
		again, err := ParseLSN(got.String())
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	for _, bad := range []string{"", "/", "1", "1/", "/1", "+1/1", "1/-1", "1_0/1", "123456789/1", "0x1/1", " 1/1", "1/1/1", "g/1"} {
		_, err := ParseLSN(bad)
		require.ErrorIs(t, err, ErrBadLSN, bad)
	}
	require.Less(t, LSN(0x9_FFFFFFFF), LSN(0x10_00000000), "numbers, not texts, decide the order")
}

func FuzzParseLSN(f *testing.F) {
	f.Add("16/B374D848")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLSN(s)
		if err != nil {
			return
		}
		again, err := ParseLSN(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
	})
}
