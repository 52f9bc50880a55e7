package programtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// memorySink is slow with rows of a snapshot while the file is there.
func memorySink(slow string) core.Sink {
	m := sinktest.NewMemory()
	m.BeforeSnapshot = func(u *core.SnapshotUnit) error {
		if _, err := os.Stat(slow); err == nil && len(u.Rows) > 0 {
			time.Sleep(time.Second)
		}
		return nil
	}
	return m
}

// snapshot runs a command about copies against a running sidecar.
func (p *process) snapshot(args ...string) (code int, stdout, stderr string) {
	p.t.Helper()
	cmd := exec.Command(os.Getenv(built), append([]string{"snapshot"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "REPLICANT_ADMIN_LISTEN="+p.admin)
	err := cmd.Run()
	var ended *exec.ExitError
	require.True(p.t, err == nil || errors.As(err, &ended), "%v", err)
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestSnapshotCommands(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, `create table orders(id int primary key, note text)`, `create table "Odd.Name""x"(id int primary key)`,
		`create schema other`, `create table other.orders(id int primary key)`, `create table apart(id int primary key)`,
		`insert into orders select i, 'n' from generate_series(1, 400) i`, `insert into "Odd.Name""x" values (1)`,
		`create publication shop for table orders, "Odd.Name""x", other.orders`)
	slow := filepath.Join(t.TempDir(), "slow")
	t.Setenv("REPLICANT_COPY_CHUNK_ROWS", "20")
	p := launch(t, db, "run", "--snapshot=incremental", "--", os.Args[0], play, "memory", slow)
	phase := func() string {
		var report struct{ Copy struct{ Phase string } }
		_, text := p.get("/statusz")
		_ = json.Unmarshal([]byte(text), &report)
		return report.Copy.Phase
	}
	p.until("the first copy", func() bool { return phase() == "done" })

	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"start", "apart"}, 1, "apart is not a table of the publications"},
		{[]string{"start", "orders"}, 1, "orders may be any of "},
		{[]string{"pause"}, 1, "no table is being copied"},
		{[]string{"resume"}, 1, "no copy is paused"},
		{[]string{"cancel", "public.orders"}, 1, "public.orders is not being copied"},
		{[]string{"start"}, 2, "requires at least 1 arg"},
		{[]string{"watch", "-o", "yaml"}, 2, "text or json"},
		{[]string{"start", "public.orders", "--admin-listen", "127.0.0.1:1"}, 1, "no sidecar answers"},
		{[]string{"start", "public.orders", "--admin-listen", ""}, 2, "admin.listen is empty"},
	} {
		code, out, errs := p.snapshot(c.args...)
		require.Equal(t, c.code, code, "%v: %s", c.args, errs)
		require.Empty(t, out)
		require.Contains(t, errs, c.says)
	}
	code, out, errs := p.snapshot("start", `"Odd.Name""x"`, "--replace")
	require.Equal(t, 0, code, errs)
	require.Contains(t, out, `public."Odd.Name""x": begun`)
	_, out, _ = p.snapshot("watch")
	require.Contains(t, out, `public.Odd.Name"x: done, 1 rows`)

	p.until("the copy before is over", func() bool { return phase() == "done" })
	require.NoError(t, os.WriteFile(slow, nil, 0o600))
	code, out, errs = p.snapshot("start", "public.orders", "-o", "json")
	require.Equal(t, 0, code, errs)
	require.JSONEq(t, `{"tables":["public.orders"]}`, out)
	code, _, errs = p.snapshot("start", "other.orders")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "a copy of public.orders is running")
	for _, what := range []string{"pause", "resume", "cancel"} {
		code, _, errs = p.snapshot(what, "other.orders")
		require.Equal(t, 1, code)
		require.Contains(t, errs, "other.orders is not being copied")
	}
	code, _, errs = p.snapshot("pause", "public.orders")
	require.Equal(t, 0, code, errs)
	p.until("paused", func() bool { return phase() == "paused" })
	code, _, errs = p.snapshot("resume")
	require.Equal(t, 0, code, errs)
	code, out, errs = p.snapshot("cancel", "public.orders")
	require.Equal(t, 0, code, errs)
	require.Contains(t, out, "public.orders: cancelled")
	code, out, errs = p.snapshot("watch")
	require.Equal(t, 0, code, errs)
	require.Contains(t, out, "public.orders: partial")

	code, _, errs = p.snapshot("start", "public.orders")
	require.Equal(t, 0, code, errs)
	ended := time.AfterFunc(5*time.Second, func() { _ = os.Remove(slow) })
	defer ended.Stop()
	code, out, errs = p.snapshot("watch", "-o", "json")
	require.Equal(t, 0, code, errs)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Contains(t, lines[0], `"phase":"copying"`)
	require.Contains(t, lines[len(lines)-1], `"phase":"done"`)
}

// TestStoppedInitialCopy: a signal in the middle of an initial copy ends with 1 and says how to
// go on; a start without that halts, and one with it copies anew.
func TestStoppedInitialCopy(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	db.Exec(t, `create table orders(id int primary key, note text)`, `insert into orders select i, 'n' from generate_series(1, 400) i`,
		`create publication shop for table orders`)
	slow := filepath.Join(t.TempDir(), "slow")
	require.NoError(t, os.WriteFile(slow, nil, 0o600))
	run := func(flags ...string) *process {
		args := append([]string{"run", "--snapshot=initial"}, flags...)
		return launch(t, db, append(args, "--", os.Args[0], play, "memory", slow)...)
	}
	copying := func(p *process) {
		p.until("it copies", func() bool {
			_, text := p.get("/statusz")
			return strings.Contains(text, `"phase":"copying"`) || strings.Contains(text, `"phase": "copying"`)
		})
	}
	p := run()
	copying(p)
	p.signal(syscall.SIGTERM)
	require.Equal(t, core.ExitInternal, p.exit())
	require.Contains(t, p.err.String(), "--snapshot-redo")
	require.Contains(t, p.err.String(), "stopped before the initial copy was complete")

	p = run()
	require.Equal(t, core.ExitHalted, p.exit())
	require.NoError(t, os.Remove(slow))
	p = run("--snapshot-redo")
	p.until("it streams", func() bool {
		_, text := p.get("/statusz")
		return strings.Contains(text, "streaming")
	})
	p.signal(syscall.SIGTERM)
	require.Equal(t, core.ExitDrained, p.exit())
}
