package windows

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/judge"
)

// Sizes of the storm.
const (
	stormRows    = 10000 // of each table
	stormRate    = 500   // transactions a second
	stormWriters = 4
	stormKills   = 20
)

// stormTables are written at random while they are copied.
var stormTables = []string{"single", "pair", "uid", "busy", "keyless"}

// TestStormBeside is the proof under load: five tables with and without a key are copied
// beside the stream while random changes come and sidecar and sink are killed in turns. It
// runs where REPLICANT_STORM names the sinks, "go python"; see `make storm`.
func TestStormBeside(t *testing.T) {
	for _, kind := range strings.Fields(os.Getenv("REPLICANT_STORM")) { // it takes minutes
		h := newHouse(t, casesOf("N2"))
		major := 0
		for m := range h.server {
			major = max(major, m)
		}
		t.Run(kind, func(t *testing.T) { stormBeside(newScene(t, h, major).long(8*time.Minute), kind) })
	}
}

func stormBeside(s *scene, kind string) {
	s.kind = "mirror"
	s.intent = []string{"--snapshot", "incremental"}
	s.args = []string{"--copy-chunk-rows", "50"}
	s.make()
	s.source.Exec(s.T, "ALTER PUBLICATION p DROP TABLE ledger, t", "CREATE TABLE single (id int PRIMARY KEY, n int, v text)",
		"CREATE TABLE pair (a text, b int, n int, v text, PRIMARY KEY (a, b))", "CREATE TABLE uid (id uuid PRIMARY KEY, n int, v text)",
		"CREATE TABLE busy (id int PRIMARY KEY, n int, v text)", "CREATE TABLE keyless (id int, n int, v text)",
		"ALTER TABLE keyless REPLICA IDENTITY FULL")
	for _, table := range stormTables {
		s.source.Exec(s.T, "ALTER TABLE "+table+" ALTER v SET STORAGE EXTERNAL", "ALTER PUBLICATION p ADD TABLE "+table,
			fmt.Sprintf("INSERT INTO %s SELECT %s, 0, repeat('x', 2200) FROM generate_series(1, %d) i", table, stormKey(table, "i"), stormRows))
	}
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	var made atomic.Int64
	for w := range stormWriters {
		conn := s.session()
		go stormWriter(ctx, conn, uint64(w), &made)
	}
	db := filepath.Join(s.dir, "mirror.db")
	startSink := func() actor {
		if kind == "python" {
			return s.startPython(db)
		}
		return s.startSink("")
	}
	sink := startSink()
	var all []*sidecar
	start := func() *sidecar {
		all = append(all, s.startSidecar(""))
		return all[len(all)-1]
	}
	current, during := start(), 0
	over := func() bool {
		return slices.ContainsFunc(all, func(c *sidecar) bool { return strings.Contains(c.said(), `"msg":"snapshot complete"`) })
	}
	began, begun := time.Now(), made.Load()
	for kill := range stormKills {
		time.Sleep(time.Duration(300+rand.IntN(500)) * time.Millisecond)
		if !over() {
			during++
		}
		if kill%2 == 0 {
			s.kill(current)
			current = start()
		} else {
			s.kill(sink)
			sink = startSink()
		}
	}
	rate := float64(made.Load()-begun) / time.Since(began).Seconds()
	s.until("the run is complete", over)
	copied := time.Since(began)
	stop()
	s.until("the sink is the source", func() bool {
		if kind == "python" {
			return pythonIsSource(s, db)
		}
		mirror, err := judge.Mirror(s.ctx, s.source.DSN, s.sink.DSN, "p")
		return err == nil && mirror.Err() == nil
	})
	fmt.Printf("storm, %s sink: %d tables of %d rows copied in %.1f s, %.0f transactions/s until the last of %d kills, %d of them while tables were copied, source equals sink\n",
		kind, len(stormTables), stormRows, copied.Seconds(), rate, stormKills, during)
}

func stormKey(table, n string) string {
	switch table {
	case "pair":
		return "'k' || (" + n + " % 7), " + n
	case "uid":
		return "md5((" + n + ")::text)::uuid"
	}
	return n
}

// stormWriter commits random changes at its part of the rate.
func stormWriter(ctx context.Context, conn *pgx.Conn, seed uint64, made *atomic.Int64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	beat := time.NewTicker(time.Second * stormWriters / stormRate)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
		table := stormTables[rng.IntN(len(stormTables))]
		key := map[string]string{"pair": "a, b"}[table]
		if key == "" {
			key = "id"
		}
		one, other := stormKey(table, fmt.Sprint(1+rng.IntN(stormRows))), stormKey(table, fmt.Sprint(1+rng.IntN(stormRows)))
		where := fmt.Sprintf("WHERE ROW(%s) = ROW(%s)", key, one)
		sql := []string{
			fmt.Sprintf("UPDATE %s SET n = n + 1 %s", table, where),
			fmt.Sprintf("UPDATE %s SET n = n + 1 %s", table, where),
			fmt.Sprintf("UPDATE %s SET n = n + 1, v = repeat('y', 2200) %s", table, where),
			fmt.Sprintf("DELETE FROM %s %s", table, where),
			fmt.Sprintf("INSERT INTO %s VALUES (%s, -1, repeat('z', 2200)) ON CONFLICT DO NOTHING", table, one),
			fmt.Sprintf("DELETE FROM %[1]s WHERE ROW(%[2]s) = ROW(%[3]s); UPDATE %[1]s SET (%[2]s) = ROW(%[3]s) WHERE ROW(%[2]s) = ROW(%[4]s)", table, key, other, one),
		}[rng.IntN(6)]
		if table == "busy" && rng.IntN(300) == 0 {
			sql = "TRUNCATE busy"
		}
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err == nil {
			made.Add(1)
		}
	}
}

// python is the example sink as a process.
type python struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func (p *python) PID() int                      { return p.cmd.Process.Pid }
func (p *python) file() string                  { return "" }
func (p *python) Signal(g syscall.Signal) error { return p.cmd.Process.Signal(g) }

func (p *python) Wait(timeout time.Duration) (syscall.WaitStatus, error) {
	select {
	case <-p.ended:
		return p.cmd.ProcessState.Sys().(syscall.WaitStatus), nil
	case <-time.After(timeout):
		return 0, fmt.Errorf("the sink does not end")
	}
}

const pythonHome = "../../examples/python-sink"

func (s *scene) startPython(db string) actor {
	s.Helper()
	p := &python{ended: make(chan struct{})}
	p.cmd = exec.Command(filepath.Join(pythonHome, ".venv/bin/python"), filepath.Join(pythonHome, "sink.py"))
	p.cmd.Env = append(os.Environ(), "REPLICANT_SINK_DB="+db, "REPLICANT_SINK_LISTEN="+s.address)
	require.NoError(s.T, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	s.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// pythonIsSource compares what the example's reader prints with the source, table by table.
func pythonIsSource(s *scene, db string) bool {
	out, err := exec.Command(filepath.Join(pythonHome, ".venv/bin/python"), filepath.Join(pythonHome, "read.py"), db).Output()
	if err != nil {
		return false
	}
	rows, columns, table := map[string][]string{}, []string(nil), ""
	for line := range strings.Lines(string(out)) {
		var one struct {
			Table   *string
			Columns []string
			Row     []*string
		}
		require.NoError(s.T, json.Unmarshal([]byte(line), &one))
		switch {
		case one.Table != nil:
			table, columns = *one.Table, one.Columns
		case one.Row != nil:
			var values []string
			for i, v := range one.Row {
				text := "null"
				if v != nil {
					b, err := base64.StdEncoding.DecodeString(*v)
					require.NoError(s.T, err)
					text = string(b)
				}
				values = append(values, columns[i]+"="+text)
			}
			rows[table] = append(rows[table], strings.Join(values, " "))
		}
	}
	conn := s.source.Conn(s.T)
	for _, table := range stormTables {
		var want []string
		result, err := conn.Query(s.ctx, "SELECT * FROM "+table, pgx.QueryExecModeSimpleProtocol)
		require.NoError(s.T, err)
		for result.Next() {
			var values []string
			for i, v := range result.RawValues() {
				values = append(values, result.FieldDescriptions()[i].Name+"="+string(v))
			}
			slices.Sort(values)
			want = append(want, strings.Join(values, " "))
		}
		require.NoError(s.T, result.Err())
		slices.Sort(want)
		slices.Sort(rows[table])
		if !slices.Equal(want, rows[table]) {
			return false
		}
	}
	return true
}
