package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// figures of one drain.
type figures struct {
	seconds                    float64
	readerCPU, sinkCPU, server float64 // CPU seconds
	readerMB, sinkMB           float64 // peak resident memory
	payload                    float64 // bytes of pgoutput, as the server counts them
}

// allReaders in the order of the table; the first is what the others are compared with.
func allReaders() []string {
	return []string{"pg_recvlogical", "decoder", "sidecar-go", "sidecar-python", "subscription"}
}

// titles for people.
var titles = map[string]string{
	"pg_recvlogical": "pg_recvlogical to nowhere",
	"decoder":        "our reader and decoder alone",
	"sidecar-go":     "sidecar, no-op Go sink",
	"sidecar-python": "sidecar, Python sink that walks every value",
	"subscription":   "native subscription",
}

// drain empties one slot with one reader.
func (b *bench) drain(ctx context.Context, conn *pgx.Conn, w *workload, database, reader, slot string, end core.LSN) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, drainMax)
	defer cancel()
	env := append(os.Environ(), envDSN+"="+b.pg.DSN(database), envSlot+"="+slot, envEnd+"="+end.String())
	var f figures
	var err error
	switch reader {
	case "pg_recvlogical":
		f, err = b.recvlogical(ctx, conn, database, slot, end, env)
	case "decoder":
		f, err = b.alone(ctx, conn, slot, env, b.self, "reader", "decode")
	case "sidecar-go":
		f, err = b.sidecarInto(ctx, conn, database, slot, env, b.self, "reader", "sink")
	case "sidecar-python":
		python := filepath.Join("examples", "python-sink", ".venv", "bin", "python")
		f, err = b.sidecarInto(ctx, conn, database, slot, env, python, filepath.Join("bench", "pysink.py"))
	case "subscription":
		f, err = b.subscription(ctx, conn, w, database, slot, end)
	default:
		err = fmt.Errorf("no reader of that name")
	}
	if err != nil {
		return f, err
	}
	var bytes *float64
	_ = conn.QueryRow(ctx, "select total_bytes::float8 from pg_stat_replication_slots where slot_name = $1", slot).Scan(&bytes)
	if bytes != nil {
		f.payload = *bytes
	}
	if err := waitFree(ctx, conn, slot); err != nil {
		return f, err
	}
	_, err = conn.Exec(ctx, "select pg_drop_replication_slot($1)", slot)
	return f, err
}

// recvlogical runs the reference, or our own plain drain where it is not installed.
func (b *bench) recvlogical(ctx context.Context, conn *pgx.Conn, database, slot string, end core.LSN, env []string) (figures, error) {
	program, err := exec.LookPath("pg_recvlogical")
	if err != nil {
		titles["pg_recvlogical"] = "our plain drain (pg_recvlogical is not installed)"
		return b.alone(ctx, conn, slot, env, b.self, "reader", "drain")
	}
	cmd := exec.CommandContext(ctx, program, "-d", b.pg.DSN(database), "-S", slot, "--start", "-f", "/dev/null",
		"-o", "proto_version=1", "-o", "publication_names=p", "-E", end.String(), "-n")
	cmd.Env = env
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return figures{}, err
	}
	server, stop := walsender(conn, slot)
	err = cmd.Wait()
	f := figures{seconds: time.Since(began).Seconds(), server: stop(server)}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	f.readerCPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	f.readerMB = float64(usage.Maxrss) / 1024
	return f, err
}

// alone runs a reader that prints "done" and then waits to be measured.
func (b *bench) alone(ctx context.Context, conn *pgx.Conn, slot string, env []string, command ...string) (figures, error) {
	began := time.Now()
	p, err := launch(ctx, env, command...)
	if err != nil {
		return figures{}, err
	}
	defer p.end()
	server, stop := walsender(conn, slot)
	if err := p.waitDone(); err != nil {
		return figures{}, err
	}
	f := figures{seconds: time.Since(began).Seconds(), server: stop(server)}
	f.readerCPU, f.readerMB = cpuSeconds(p.pid()), peakMB(p.pid())
	return f, nil
}

// sidecarInto runs sidecar and sink. The clock starts with the sidecar: the sink is up.
func (b *bench) sidecarInto(ctx context.Context, conn *pgx.Conn, database, slot string, env []string, command ...string) (figures, error) {
	listen := "unix:" + filepath.Join(b.dir, slot+".sock")
	env = append(env, "REPLICANT_SINK_LISTEN="+listen, "REPLICANT_SOURCE="+b.pg.DSN(database))
	sink, err := launch(ctx, env, command...)
	if err != nil {
		return figures{}, err
	}
	defer sink.end()
	if err := waitForSocket(ctx, strings.TrimPrefix(listen, "unix:")); err != nil {
		return figures{}, err
	}
	args := []string{b.sidecar, "run", "--slot", slot, "--publications", "p", "--sink", listen,
		"--go-forward-only", "--adopt-slot", "--admin-listen", "", "--log-level", "warn"}
	if b.profile != "" {
		args[len(args)-3] = profileAddress
		args = append(args, "--admin-pprof")
	}
	began := time.Now()
	sidecar, err := launch(ctx, env, args...)
	if err != nil {
		return figures{}, err
	}
	defer sidecar.end()
	server, stop := walsender(conn, slot)
	if b.profile != "" {
		go fetchProfile(filepath.Join(b.profile, slot+".pprof"))
	}
	if err := sink.waitDone(); err != nil {
		return figures{}, err
	}
	f := figures{seconds: time.Since(began).Seconds(), server: stop(server)}
	f.readerCPU, f.readerMB = cpuSeconds(sidecar.pid()), peakMB(sidecar.pid())
	f.sinkCPU, f.sinkMB = cpuSeconds(sink.pid()), peakMB(sink.pid())
	return f, nil
}

const profileAddress = "127.0.0.1:9475"

// fetchProfile asks the sidecar for two seconds of its CPU profile.
func fetchProfile(path string) {
	answer, err := http.Get("http://" + profileAddress + "/debug/pprof/profile?seconds=2")
	if err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
		return
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
	}
}

func waitForSocket(ctx context.Context, path string) error {
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the sink does not listen: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// walsender finds the server process that sends from the slot and returns a function
// that reads its CPU time at the end. Its own CPU time before is near nothing.
func walsender(conn *pgx.Conn, slot string) (pid int, stop func(int) float64) {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var found *int
		err := conn.QueryRow(context.Background(), "select active_pid from pg_replication_slots where slot_name = $1", slot).Scan(&found)
		if err == nil && found != nil {
			pid = *found
			break
		}
	}
	// A reader that ends by itself takes its walsender with it: sample beside it.
	last, quit, done := 0.0, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			if now := cpuSeconds(pid); now > 0 {
				last = now
			}
			select {
			case <-quit:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return pid, func(pid int) float64 {
		close(quit)
		<-done
		return max(last, cpuSeconds(pid))
	}
}

// process is a child that says "done" on its standard output.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
}

func launch(ctx context.Context, env []string, command ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Stderr = env, os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &process{cmd, stdin, bufio.NewScanner(out)}, cmd.Start()
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) waitDone() error {
	for p.lines.Scan() {
		if p.lines.Text() == "done" {
			return nil
		}
	}
	return errors.New("ended before it was done")
}

func (p *process) end() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	killer := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer killer.Stop()
	_, _ = io.Copy(io.Discard, readerOf(p))
	_ = p.cmd.Wait()
}

// readerOf drains what is left of the child's output, so that it never blocks on it.
func readerOf(p *process) io.Reader {
	return readerFunc(func(b []byte) (int, error) {
		if p.lines.Scan() {
			return 0, nil
		}
		return 0, io.EOF
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
