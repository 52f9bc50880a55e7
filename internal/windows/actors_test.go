package windows

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/process"
)

// actor is a process with a witness file.
type actor interface {
	PID() int
	Wait(time.Duration) (syscall.WaitStatus, error)
	Signal(syscall.Signal) error
	file() string
}

// sinkProcess is a running sink.
type sinkProcess struct {
	*process.Process
	witness string
}

func (p *sinkProcess) file() string { return p.witness }

// witnessFile is a new one, known to the house.
func (s *scene) witnessFile() string {
	s.started++
	file := filepath.Join(s.house.dir, fmt.Sprintf("%s-%d", s.slot, s.started))
	s.house.mu.Lock()
	defer s.house.mu.Unlock()
	s.house.witnesses = append(s.house.witnesses, file)
	return file
}

func (s *scene) startSink(points string, env ...string) *sinkProcess {
	s.Helper()
	return s.startSinkAt(strings.TrimPrefix(s.address, "unix:"), points, env...)
}

func (s *scene) startSinkAt(socket, points string, env ...string) *sinkProcess {
	s.Helper()
	p := &sinkProcess{witness: s.witnessFile()}
	all := append([]string{"TESTSINK_DSN=" + s.to, "TESTSINK_KIND=" + s.kind}, s.env...)
	var err error
	p.Process, err = process.Start(process.Options{Socket: socket, Env: append(all, env...), Points: points, Witness: p.witness})
	require.NoError(s.T, err)
	s.Cleanup(func() {
		_ = p.Signal(syscall.SIGCONT)
		p.Kill()
		if s.Failed() {
			s.Logf("sink %d said: %s", p.PID(), p.Stderr())
		}
	})
	return p
}

// sidecar is a running sidecar.
type sidecar struct {
	cmd     *exec.Cmd
	witness string
	ended   chan struct{}
	mu      sync.Mutex
	text    bytes.Buffer
}

func (c *sidecar) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

func (c *sidecar) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

func (c *sidecar) PID() int                      { return c.cmd.Process.Pid }
func (c *sidecar) file() string                  { return c.witness }
func (c *sidecar) Signal(g syscall.Signal) error { return c.cmd.Process.Signal(g) }

// Wait waits for the end.
func (c *sidecar) Wait(timeout time.Duration) (syscall.WaitStatus, error) {
	select {
	case <-c.ended:
		return c.cmd.ProcessState.Sys().(syscall.WaitStatus), nil
	case <-time.After(timeout):
		return 0, fmt.Errorf("the sidecar does not end")
	}
}

// command is how the sidecar is run.
func (s *scene) command(extra ...string) (args, env []string) {
	args = append([]string{
		s.house.program, "run", "--slot", s.slot, "--publications", "p", "--sink", s.address, "--admin-listen", "",
		"--log-format", "json", "--status-interval", "200ms", "--spill-dir", filepath.Join(s.dir, "spill"),
	}, s.intent...)
	args = append(append(args, s.args...), extra...)
	env = append(os.Environ(), "REPLICANT_SOURCE="+s.from)
	if s.keep != "" {
		env = append(env, "REPLICANT_CHECKPOINT_STORE_POSTGRES_DSN="+s.keep)
	}
	return args, env
}

func (s *scene) startSidecar(points string, extra ...string) *sidecar {
	s.Helper()
	c := &sidecar{witness: s.witnessFile(), ended: make(chan struct{})}
	args, env := s.command(extra...)
	c.cmd = exec.Command(args[0], args[1:]...)
	c.cmd.Env = append(env, "REPLICANT_FAILPOINTS="+points, "REPLICANT_FAILPOINT_WITNESS="+c.witness)
	c.cmd.Stderr, c.cmd.Stdout = c, c
	require.NoError(s.T, c.cmd.Start())
	go func() { _ = c.cmd.Wait(); close(c.ended) }()
	s.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
		if s.Failed() {
			s.Logf("sidecar %d said: %s", c.PID(), c.said())
		}
	})
	return c
}

// witnessed waits for the line of a point, and requires it to be the only one of its
// action.
func (s *scene) witnessed(a actor, point failpoint.Point, action string) failpoint.Witness {
	s.Helper()
	var w failpoint.Witness
	s.until(fmt.Sprintf("%s is passed", point), func() bool {
		all, err := failpoint.ReadWitness(a.file())
		if err != nil {
			return false // being written
		}
		for _, one := range all {
			if one.Point == point && one.Action == action {
				w = one
				return true
			}
		}
		return false
	})
	require.Equal(s.T, a.PID(), w.PID)
	s.seen("%s@%d %s %d", w.Point, w.Ordinal, w.Action, w.PID)
	return w
}

// killed waits for the end of a process by SIGKILL at a point.
func (s *scene) killed(a actor, point failpoint.Point) {
	s.Helper()
	s.witnessed(a, point, "kill")
	status, err := a.Wait(limit)
	require.NoError(s.T, err)
	require.True(s.T, status.Signaled() && status.Signal() == syscall.SIGKILL, "it ended otherwise: %v", status)
	s.seen("SIGKILL")
}

// stop ends a sidecar in order.
func (s *scene) stop(c *sidecar) {
	s.Helper()
	require.NoError(s.T, c.Signal(syscall.SIGTERM))
	status, err := c.Wait(limit)
	require.NoError(s.T, err)
	require.True(s.T, status.Exited() && status.ExitStatus() == core.ExitDrained, "%v: %s", status, c.said())
}

// end ends a sink in order.
func (s *scene) end(p *sinkProcess) {
	s.Helper()
	require.NoError(s.T, p.Signal(syscall.SIGTERM))
	status, err := p.Wait(limit)
	require.NoError(s.T, err)
	require.True(s.T, status.Exited() && status.ExitStatus() == 0, "%v", status)
}

// kill ends a process at once.
func (s *scene) kill(a actor) {
	s.Helper()
	require.NoError(s.T, a.Signal(syscall.SIGKILL))
	_, err := a.Wait(limit)
	require.NoError(s.T, err)
}

// halts waits for the end of a sidecar with a halt. Started again without a change it
// halts again, and nothing more is confirmed.
func (s *scene) halts(c *sidecar, code core.HaltCode) {
	s.Helper()
	s.halted(c, code)
	before, err := s.durable()(s.ctx)
	require.NoError(s.T, err)
	told := s.confirmed()
	s.halted(s.startSidecar(""), code)
	after, err := s.durable()(s.ctx)
	require.NoError(s.T, err)
	require.Equal(s.T, before, after, "it delivered more")
	if now := s.confirmed(); now != told {
		require.Equal(s.T, after.String(), now, "it confirmed more than was durable")
	}
}

// halted waits for the end of a sidecar with a halt.
func (s *scene) halted(c *sidecar, code core.HaltCode) {
	s.Helper()
	status, err := c.Wait(limit)
	require.NoError(s.T, err)
	require.True(s.T, status.Exited(), "%v", status)
	require.Equal(s.T, code, c.halt(), c.said())
	want := core.ExitHalted
	if code == core.HaltFenced {
		want = core.ExitFenced
	}
	require.Equal(s.T, want, status.ExitStatus())
	s.seen("halt %s exit %d", code, status.ExitStatus())
}

// halt is the code of the last halt that was logged.
func (c *sidecar) halt() (code core.HaltCode) {
	scan := bufio.NewScanner(strings.NewReader(c.said()))
	for scan.Scan() {
		var line struct{ Msg, Code string }
		if json.Unmarshal(scan.Bytes(), &line) == nil && line.Msg == "halted" {
			code = core.HaltCode(line.Code)
		}
	}
	return code
}

// waits reports whether it has logged that it waits in a state.
func (c *sidecar) waits(state string) bool { return strings.Contains(c.said(), `"state":"`+state+`"`) }

// release lets a blocked point go on.
func (s *scene) release(file string) {
	s.Helper()
	require.NoError(s.T, os.WriteFile(file, nil, 0o600))
}

// holds arms a point to block at its first passages, each with a gate of its own. An idle
// step may pass a point before or between transactions, so that the ordinal of one of them
// is not known beforehand: see heldAt.
func (s *scene) holds(point failpoint.Point) (points string, gates []string) {
	for n := 1; n <= 12; n++ {
		gates = append(gates, s.gate())
		points += fmt.Sprintf("%s=block:%s@%d;", point, gates[n-1], n)
	}
	return points, gates
}

// heldAt lets passages go until a fact is there while one is held, and returns its gate.
func (s *scene) heldAt(a actor, point failpoint.Point, gates []string, fact func() bool) string {
	s.Helper()
	for n, gate := range gates {
		s.until(fmt.Sprintf("%s is passed", point), func() bool {
			all, err := failpoint.ReadWitness(a.file())
			passed := slices.DeleteFunc(all, func(w failpoint.Witness) bool { return w.Point != point })
			return err == nil && len(passed) == n+1
		})
		if fact() {
			s.seen("%s@%d block %d", point, n+1, a.PID())
			return gate
		}
		s.release(gate)
	}
	require.FailNow(s.T, "the passage was not met")
	return ""
}

// gate is a new file to release a point with.
func (s *scene) gate() string {
	s.started++
	return filepath.Join(s.dir, fmt.Sprintf("gate%d", s.started))
}

// streams reports whether it has logged that it streams.
func (c *sidecar) streams() bool { return strings.Contains(c.said(), `"msg":"streaming"`) }
