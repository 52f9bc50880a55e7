package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// pythonSink is the example with its own interpreter; `make python` sets it up.
func pythonSink(t *testing.T) (python, script string) {
	t.Helper()
	home, err := filepath.Abs("../../../../examples/python-sink")
	require.NoError(t, err)
	python = filepath.Join(home, ".venv", "bin", "python")
	require.FileExists(t, python, "run: make python")
	return python, filepath.Join(home, "sink.py")
}

// effects are the numbers in the table without a key, in the order in which they came; a
// transaction that took effect twice stands there twice.
func effects(t *testing.T, python, db string) []int {
	t.Helper()
	const ask = `import sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=20) as db:
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'public.log'").fetchone():
        print(*(id for (id,) in db.execute('SELECT id FROM "public.log" ORDER BY rowid')))`
	out, err := exec.Command(python, "-c", ask, db).Output()
	require.NoError(t, err)
	var ids []int
	for _, word := range strings.Fields(string(out)) {
		id, err := strconv.Atoi(word)
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

// TestPythonSinkInEveryMode kills the sidecar, and with it the sink, again and again while
// rows come. In sink-owned modes nothing repeats. In lib modes a kill repeats at most one
// transaction, or one batch, and what repeats begins just above the stored position.
func TestPythonSinkInEveryMode(t *testing.T) {
	python, script := pythonSink(t)
	const kills, each, batch = 4, 30, 8
	for name, c := range map[string]struct {
		settings []string
		mode     string
		repeats  int // most transactions again per kill
	}{
		"batch":         {nil, "batch", 0},
		"transaction":   {[]string{"--delivery-mode=transaction"}, "transaction", 0},
		"lib":           {[]string{"--checkpoint-store-file-dir=STORE"}, "lib", 1},
		"lib batched":   {[]string{"--checkpoint-store-file-dir=STORE", fmt.Sprintf("--checkpoint-store-batch-max-transactions=%d", batch)}, "lib_batched", batch},
		"lib, Postgres": {[]string{"--checkpoint-store-postgres-dsn=SOURCE", "--checkpoint-store-postgres-table=my checkpoints"}, "lib", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.Shared(t, 17).Database(t)
			db.Exec(t, "create table log(id int)", "create publication p for table log")
			dir := t.TempDir()
			file := filepath.Join(dir, "mirror.db")
			args := []string{"run", "--publications=p", "--go-forward-only", "--drain-timeout=5s"}
			for _, s := range c.settings {
				s = strings.Replace(s, "=STORE", "="+filepath.Join(dir, "store"), 1)
				args = append(args, strings.Replace(s, "=SOURCE", "="+db.DSN, 1))
			}
			args = append(args, "--", "env", "REPLICANT_SINK_DB="+file, python, script)
			total := 0
			for kill := range kills {
				p := launch(t, db, args...)
				p.until("ready", func() bool { code, _ := p.get("/readyz"); return code == 200 })
				_, status := p.get("/statusz")
				require.Contains(t, status, fmt.Sprintf(`"mode": %q`, c.mode))
				pid := p.childPID()
				conn := db.Conn(t)
				for range each {
					total++
					_, err := conn.Exec(t.Context(), "insert into log values ($1)", total)
					require.NoError(t, err)
				}
				if kill%2 == 1 { // in the middle of them, or soon after
					p.until("some", func() bool { return len(effects(t, python, file)) > 0 })
				}
				require.NoError(t, p.cmd.Process.Kill())
				p.exit()
				p.until("the sink ends", func() bool { return gone(pid) })
			}
			p := launch(t, db, args...)
			p.until("ready", func() bool { code, _ := p.get("/readyz"); return code == 200 })
			p.until("all rows", func() bool {
				ids := effects(t, python, file)
				return len(ids) >= total && ids[len(ids)-1] == total
			})
			p.signal(syscall.SIGTERM)
			require.Equal(t, 0, p.exit())
			runsForward(t, effects(t, python, file), total, kills, c.repeats)
		})
	}
}

// runsForward checks effects against 1..last: nothing missing, forward by one, back by
// no more than bound for a fault.
func runsForward(t *testing.T, ids []int, last, faults, bound int) {
	t.Helper()
	top, before, jumps := 0, 0, 0
	for _, id := range ids {
		if id != before+1 {
			jumps++
			require.LessOrEqual(t, id, top, "a hole: %v", ids)
			require.Greater(t, id, top-bound, "too many again: %v", ids)
		}
		top, before = max(top, id), id
	}
	require.Equal(t, last, top)
	require.LessOrEqual(t, jumps, faults)
}

// TestFileStoreBelongsToOneProcess: a second sidecar on one file is refused, and says why.
func TestFileStoreBelongsToOneProcess(t *testing.T) {
	python, script := pythonSink(t)
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, "create table log(id int)", "create publication p for table log")
	dir := t.TempDir()
	args := func(name string) []string {
		return []string{"run", "--publications=p", "--go-forward-only", "--checkpoint-store-file-dir=" + filepath.Join(dir, "store"),
			"--", "env", "REPLICANT_SINK_DB=" + filepath.Join(dir, name), python, script}
	}
	first := launch(t, db, args("a")...)
	first.until("ready", func() bool { code, _ := first.get("/readyz"); return code == 200 })
	second := launch(t, db, args("b")...)
	require.Equal(t, 4, second.exit())
	require.Contains(t, second.err.String(), `"code":"store_invalid"`)
	require.Contains(t, second.err.String(), "in use by another process")
	first.signal(syscall.SIGTERM)
	require.Equal(t, 0, first.exit())

	files, err := filepath.Glob(filepath.Join(dir, "store", "*.checkpoint"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NoError(t, os.Truncate(files[0], 20))
	third := launch(t, db, args("a")...)
	require.Equal(t, 4, third.exit())
	require.Contains(t, third.err.String(), `"code":"store_invalid"`)
}
