package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// TestOrderOfKeysChanges: the key's column gets another collation while ranges that were cut
// by the old one are left, within a session and between two. No row is left out.
func TestOrderOfKeysChanges(t *testing.T) {
	for _, name := range []string{"running", "stopped"} {
		t.Run(name, func(t *testing.T) {
			db := pgtest.Shared(t, 17).Database(t)
			db.Exec(t, `create table a(k text collate "C" primary key, v int)`,
				"insert into a select chr(97 + i % 26) || i, 0 from generate_series(1, 60) i",
				"insert into a select chr(65 + i % 26) || i, 0 from generate_series(1, 60) i", "create publication p for table a")
			const alter = `alter table a alter k type text collate "en-x-icu"`
			sink := sinktest.NewMemory()
			units, reached := 0, make(chan struct{})
			sink.BeforeSnapshot = func(u *core.SnapshotUnit) error {
				if len(u.Rows) == 0 {
					return nil
				}
				switch units++; {
				case units == 5 && name == "running":
					db.Exec(t, alter)
				case units == 5:
					close(reached)
				}
				if units >= 5 && name == "stopped" {
					return &core.SinkError{Class: core.ClassAway, Call: "HandleSnapshot", Code: "away"}
				}
				return nil
			}
			o := beside(db, sink)
			o.Copy.ChunkRows, o.Copy.Connections = 4, 1
			r := start(t, o)
			if name == "stopped" {
				<-reached
				r.cancel()
				require.ErrorIs(t, r.wait(t), pipeline.ErrAbort)
				db.Exec(t, alter)
				sink.BeforeSnapshot = nil
				r = start(t, o)
			}
			copied(t, r, sink)
			alike(t, r, db, sink, "a")
		})
	}
}
