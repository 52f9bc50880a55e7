package programtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// Killed while a transaction in progress is on disk, the program leaves no file; the next
// start has the transaction from the server again, and the sink has it once.
func TestKilledWithATransactionOnDisk(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		shop(t, db)
		spill := t.TempDir()
		t.Setenv("REPLICANT_STREAMING", "on")
		t.Setenv("REPLICANT_SPILL_DIR", spill)
		t.Setenv("REPLICANT_LOG_LEVEL", "info")
		file := filepath.Join(t.TempDir(), "log")
		small := "--source=" + db.DSN + "&password=" + secret + "&options=-c%20logical_decoding_work_mem%3D1MB"
		args := append([]string{"run", small, "--go-forward-only", "--"}, os.Args[0], play, "count", file)
		p := launch(t, db, args...)
		p.says(`"streaming"`)
		app := db.Conn(t)
		_, err := app.Exec(t.Context(), "begin; insert into orders select i, repeat('x', 900) from generate_series(1, 30000) i")
		require.NoError(t, err)
		p.until("the transaction is on disk", func() bool {
			insert(t, db, 1_000_000, 1_000_000) // what is in progress is written out with it
			db.Exec(t, "delete from orders where id = 1000000")
			var status struct {
				InProgress   int   `json:"in_progress"`
				SpilledBytes int64 `json:"spilled_bytes"`
			}
			_, text := p.get("/statusz")
			return json.Unmarshal([]byte(text), &status) == nil && status.InProgress == 1 && status.SpilledBytes > 10<<20
		})
		nothingIn(t, spill)
		p.signal(syscall.SIGKILL)
		<-p.done
		nothingIn(t, spill)
		again := launch(t, db, args...)
		again.says(`"streaming"`)
		_, err = app.Exec(t.Context(), "commit")
		require.NoError(t, err)
		again.until("the transaction", func() bool {
			ids := stored(t, file)
			return len(ids) > 0 && ids[len(ids)-1] == "30000 rows"
		})
		again.signal(syscall.SIGTERM)
		require.Zero(t, again.exit())
		nothingIn(t, spill)
		count := 0
		for _, id := range stored(t, file) {
			if id == "30000 rows" {
				count++
			}
		}
		require.Equal(t, 1, count)
	})
}

// nothingIn finds nothing but folders below dir.
func nothingIn(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		require.True(t, err == nil && d.IsDir(), path)
		return err
	}))
}
