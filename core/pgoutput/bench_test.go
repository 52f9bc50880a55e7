package pgoutput

import (
	"path/filepath"
	"testing"

	"github.com/jackc/pglogrepl"
	"github.com/replicant-sidecar/replicant-sidecar/internal/golden"
	"github.com/stretchr/testify/require"
)

// The figures of docs/adr/0001-own-decoder.md.

func recordedFrames(b *testing.B) (frames [][]byte) {
	for _, story := range []string{"dml_kinds", "identity", "types", "row_filter"} {
		r, err := golden.Read(filepath.Join("testdata", story+".pg18.pgout"))
		require.NoError(b, err)
		for _, s := range r.Sessions {
			frames = append(frames, s.Messages()...)
		}
	}
	return frames
}

func BenchmarkRecorded(b *testing.B) {
	frames := recordedFrames(b)
	b.Run("own", func(b *testing.B) {
		b.ReportAllocs()
		d := NewDecoder(Options{})
		var m Message
		for n := 0; b.Loop(); n++ {
			if err := d.Decode(frames[n%len(frames)], &m); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pglogrepl", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			if _, err := pglogrepl.Parse(frames[n%len(frames)]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
