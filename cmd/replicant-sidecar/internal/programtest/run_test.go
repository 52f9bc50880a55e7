package programtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/transcript"
)

// secret is in the address of every source here and must never be printed.
const secret = "hunter2"

// process is a running program.
type process struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err transcript.Text
	temp     string
	admin    string
	done     chan struct{}
}

const patience = 30 * time.Second

// launch starts the program with a source, an admin port and a temp folder of its own.
func launch(t *testing.T, db *pgtest.DB, args ...string) *process {
	t.Helper()
	temp, err := os.MkdirTemp("/tmp", "rp")
	require.NoError(t, err)
	p := &process{t: t, temp: temp, admin: freeAddress(t), done: make(chan struct{})}
	p.cmd = exec.Command(os.Getenv(built), args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.Env = append(os.Environ(), "TMPDIR="+temp, "REPLICANT_SOURCE="+db.DSN+"&password="+secret,
		"REPLICANT_ADMIN_LISTEN="+p.admin, "REPLICANT_LOG_LEVEL=info", "REPLICANT_SLOT="+slotOf(db), "REPLICANT_PUBLICATIONS=shop")
	require.NoError(t, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		_ = os.RemoveAll(temp)
		if t.Failed() {
			t.Logf("stdout:\n%s\nstderr:\n%s", p.out.String(), p.err.String())
		}
		require.NotContains(t, p.out.String()+p.err.String(), secret)
	})
	return p
}

func slotOf(db *pgtest.DB) string { return "s_" + db.Name }

func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// exit waits for the end and returns the exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		require.Fail(p.t, "the program did not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) says(text string) {
	p.t.Helper()
	p.until("says "+text, func() bool { return strings.Contains(p.out.String()+p.err.String(), text) })
}

func (p *process) until(what string, happened func() bool) {
	p.t.Helper()
	require.Eventually(p.t, happened, patience, 10*time.Millisecond, what)
}

func (p *process) get(path string) (int, string) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + p.admin + path)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

func shop(t *testing.T, db *pgtest.DB) {
	db.Exec(t, `CREATE TABLE orders (id int PRIMARY KEY, note text)`, `CREATE PUBLICATION shop FOR TABLE orders`)
}

func insert(t *testing.T, db *pgtest.DB, from, to int) {
	for id := from; id <= to; id++ {
		db.Exec(t, fmt.Sprintf(`INSERT INTO orders VALUES (%d, 'n')`, id))
	}
}

func stored(t *testing.T, path string) []string {
	lines, err := readLines(path)
	require.NoError(t, err)
	var ids []string
	for _, l := range lines {
		ids = append(ids, l.IDs...)
	}
	return ids
}

func numbers(from, to int) (all []string) {
	for id := from; id <= to; id++ {
		all = append(all, strconv.Itoa(id))
	}
	return all
}

func sinkArgs(parts ...string) []string {
	return append([]string{"run", "--go-forward-only", "--drain-timeout=5s", "--", os.Args[0], play}, parts...)
}

// childPID finds the process id of the sink in the log.
func (p *process) childPID() int {
	p.says(`"sink started"`)
	for l := range strings.Lines(p.err.String()) {
		var entry struct {
			Msg string
			PID int
		}
		if json.Unmarshal([]byte(l), &entry) == nil && entry.Msg == "sink started" {
			return entry.PID
		}
	}
	require.Fail(p.t, "no process id in the log")
	return 0
}

func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func TestRunWithASinkBesideItDrainsAndLeavesNothing(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		shop(t, db)
		file := filepath.Join(t.TempDir(), "log")
		p := launch(t, db, sinkArgs("file", file)...)
		p.until("ready", func() bool { code, _ := p.get("/readyz"); return code == 200 })
		insert(t, db, 1, 20)
		p.until("rows", func() bool { return len(stored(t, file)) == 20 })
		code, text := p.get("/statusz")
		require.Equal(t, 200, code)
		require.Contains(t, text, `"name": "file"`)
		// The sink has a row a moment before its answer is counted.
		p.until("metrics", func() bool {
			_, text = p.get("/metrics")
			return strings.Contains(text, "replicant_transactions_total 20\n")
		})
		require.Contains(t, text, "grpc_client_handled_total")
		pid := p.childPID()
		p.signal(syscall.SIGTERM)
		require.Equal(t, 0, p.exit())
		require.True(t, gone(pid))
		left, err := os.ReadDir(p.temp)
		require.NoError(t, err)
		require.Empty(t, left, "a socket folder is left")

		insert(t, db, 21, 30) // while nobody runs
		p = launch(t, db, sinkArgs("file", file)...)
		p.until("the rest", func() bool { return len(stored(t, file)) == 30 })
		p.signal(syscall.SIGINT)
		require.Equal(t, 0, p.exit())
		require.Equal(t, numbers(1, 30), stored(t, file), "each once, in order")
	})
}

func TestSinkThatEndsByItselfEndsTheRunWithItsCode(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	shop(t, db)
	for part, code := range map[string]int{"exit 3": 3, "exit 0": 0, "exit-later": 7} {
		p := launch(t, db, sinkArgs(strings.Fields(part)...)...)
		require.Equal(t, code, p.exit(), part)
	}
	p := launch(t, db, "run", "--", "no-such-command-here")
	require.Equal(t, 2, p.exit())
	require.Contains(t, p.err.String(), "no-such-command-here")
}

func TestHaltExitsWithItsCodeOrParks(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t) // no publication
	file := filepath.Join(t.TempDir(), "log")
	p := launch(t, db, sinkArgs("file", file)...)
	require.Equal(t, 4, p.exit())
	require.Contains(t, p.err.String(), `"code":"publication_missing"`)

	db.Exec(t, fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput')", slotOf(db)),
		"SELECT pg_logical_emit_message(false, 'x', repeat('y', 100000))")
	p = launch(t, db, append([]string{"run", "--on-halt=park"}, sinkArgs("file", file)[1:]...)...)
	p.says("halted and parked")
	p.until("the slot is watched while parked", func() bool {
		_, metrics := p.get("/metrics")
		held := regexp.MustCompile(`(?m)^replicant_slot_held_bytes (\S+)$`).FindStringSubmatch(metrics)
		return held != nil && held[1] != "0"
	})
	code, text := p.get("/readyz?verbose")
	require.Equal(t, 503, code)
	require.Contains(t, text, "publication_missing")
	code, _ = p.get("/livez")
	require.Equal(t, 200, code)
	_, text = p.get("/")
	require.Contains(t, text, "publication_missing")
	require.False(t, gone(p.childPID()), "the sink stays up while parked")
	p.signal(syscall.SIGTERM)
	require.Equal(t, 4, p.exit())
}

// The startup probe must not need the sink, which may start after us.
func TestStartedWithoutASink(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	shop(t, db)
	p := launch(t, db, "run", "--sink", "unix:"+filepath.Join(t.TempDir(), "nobody.sock"))
	p.until("started", func() bool { code, _ := p.get("/startedz"); return code == 200 })
	p.until("waits for the sink", func() bool {
		code, text := p.get("/readyz?verbose")
		return code == 503 && strings.Contains(text, "sink_unavailable")
	})
	code, _ := p.get("/livez")
	require.Equal(t, 200, code)
	p.signal(syscall.SIGTERM)
	require.Equal(t, 0, p.exit())
}

func TestSecondSignalAborts(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	shop(t, db)
	file := filepath.Join(t.TempDir(), "log")
	p := launch(t, db, append([]string{"run", "--go-forward-only", "--drain-timeout=10m"}, sinkArgs("hang", file)[3:]...)...)
	p.until("ready", func() bool { code, _ := p.get("/readyz"); return code == 200 })
	insert(t, db, 1, 1)
	p.until("in flight", func() bool { _, text := p.get("/statusz"); return strings.Contains(text, `"in_flight": true`) })
	pid := p.childPID()
	p.signal(syscall.SIGTERM)
	p.says("draining")
	time.Sleep(100 * time.Millisecond)
	require.False(t, gone(pid), "a drain waits")
	p.signal(syscall.SIGTERM)
	p.says("aborting")
	p.signal(syscall.SIGTERM) // and the sink is not waited for either
	require.Equal(t, 1, p.exit())
	require.True(t, gone(pid))
	require.Empty(t, stored(t, file))
}

// A sidecar that is killed takes its sink with it; the next run goes on exactly there.
func TestKilledSidecar(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	shop(t, db)
	file := filepath.Join(t.TempDir(), "log")
	total := 0
	for range 4 {
		p := launch(t, db, sinkArgs("file", file)...)
		p.until("ready", func() bool { code, _ := p.get("/readyz"); return code == 200 })
		pid := p.childPID()
		insert(t, db, total+1, total+10)
		total += 10
		require.NoError(t, p.cmd.Process.Kill())
		p.exit()
		p.until("the sink ends", func() bool { return gone(pid) })
	}
	p := launch(t, db, sinkArgs("file", file)...)
	p.until("all rows, and ready", func() bool {
		code, _ := p.get("/readyz")
		return code == 200 && len(stored(t, file)) >= total
	})
	p.signal(syscall.SIGTERM)
	require.Equal(t, 0, p.exit())
	require.Equal(t, numbers(1, total), stored(t, file))
}
