package golden

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/stretchr/testify/require"
)

func TestReadsEveryRecording(t *testing.T) {
	all, err := ReadDir("../../core/pgoutput/testdata")
	require.NoError(t, err)
	messages, keepalives, notes, protocols := 0, 0, 0, map[int]int{}
	for _, r := range all {
		require.NotEmpty(t, r.Sessions, r.Story)
		for _, s := range r.Sessions {
			protocols[s.Protocol]++
			messages += len(s.Messages())
			for _, l := range s.Lines {
				switch {
				case l.Keepalive:
					keepalives++
					require.NotZero(t, l.End)
				case l.Note != "":
					notes++
				default:
					require.NotEmpty(t, l.Message)
					require.Equal(t, l.Start, l.End)
				}
			}
		}
	}
	require.Greater(t, messages, 10_000)
	require.Greater(t, keepalives, 1_000)
	require.NotZero(t, notes)
	require.Subset(t, []int{1, 2, 3, 4}, keys(protocols))
	require.Len(t, protocols, 4)
}

func keys(m map[int]int) (all []int) {
	for k := range m {
		all = append(all, k)
	}
	return all
}

func TestReadsOneOfEach(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a_story.pg17.pgout")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write("# story a_story\n# open s proto_version '2', binary 'true'\nk 0/10 1\nw 0/11 1/12 42ff\n# notice WARNING x\n# close\n")
	r, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, Recording{Story: "a_story", Major: 17, Sessions: []Session{{
		Options:  "s proto_version '2', binary 'true'",
		Protocol: 2,
		Lines: []Line{
			{Keepalive: true, End: 0x10, Reply: true},
			{Start: 0x11, End: core.LSN(1)<<32 | 0x12, Message: []byte{0x42, 0xff}},
			{Note: "notice WARNING x"},
		},
	}}}, r)
	require.True(t, r.Sessions[0].Binary())
	require.Equal(t, "a_story.pg17.0", r.Name(0))
	for _, bad := range []string{
		"w 0/1 0/1 42\n", "# open s\nw 0/1 0/1 4\n", "# open s\nw 0/1 zz 42\n", "# open s\nk 1 0\n", "# open s\nx\n",
		"# open s proto_version 'x'\n",
	} {
		write(bad)
		_, err := Read(path)
		require.Error(t, err, bad)
	}
	_, err = ReadDir(t.TempDir())
	require.Error(t, err)
}
