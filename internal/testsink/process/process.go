// Package process runs the test sink as a program of its own, so that it can be killed,
// stopped and armed with failpoints.
package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/internal/transcript"
)

// The environment that a process gets beside what Options say.
const (
	envListen  = "REPLICANT_SINK_LISTEN"
	envPoints  = "REPLICANT_FAILPOINTS"
	envWitness = "REPLICANT_FAILPOINT_WITNESS"
)

// Options of a process.
type Options struct {
	// Program is the one that Prepare built when empty.
	Program string
	// Socket to listen on. Its path must be short. A sink that is started again keeps it.
	Socket string
	// Env holds settings of package testsink, "TESTSINK_DSN=...".
	Env []string
	// Points arms failpoints, and Witness is their file.
	Points, Witness string
}

// Process is a running sink.
type Process struct {
	Address string // for the sidecar
	cmd     *exec.Cmd
	err     transcript.Text
	ended   chan struct{}
}

// startTimeout bounds the wait until the sink listens.
const startTimeout = 20 * time.Second

// Start starts a sink and waits until it listens.
func Start(o Options) (*Process, error) {
	if o.Program == "" {
		if o.Program = os.Getenv(envProgram); o.Program == "" {
			return nil, errors.New("there is no program: TestMain calls Prepare first")
		}
	}
	p := &Process{Address: "unix:" + o.Socket, cmd: exec.Command(o.Program), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), o.Env...)
	p.cmd.Env = append(p.cmd.Env, envListen+"="+p.Address, envPoints+"="+o.Points, envWitness+"="+o.Witness)
	p.cmd.Stderr = &p.err
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(2 * time.Millisecond) {
		if conn, err := net.Dial("unix", o.Socket); err == nil {
			_ = conn.Close()
			return p, nil
		}
		select {
		case <-p.ended:
			return nil, fmt.Errorf("the sink ended at once: %s: %s", p.cmd.ProcessState, p.Stderr())
		default:
		}
		if time.Now().After(deadline) {
			p.Kill()
			return nil, errors.New("the sink does not listen")
		}
	}
}

// PID is the process's number, which stands in inserted_by.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stderr is what it has logged.
func (p *Process) Stderr() string { return strings.TrimSpace(p.err.String()) }

// Signal sends a signal, SIGSTOP and SIGCONT included.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Kill ends it at once and waits.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Wait waits for its end and says how it ended.
func (p *Process) Wait(timeout time.Duration) (syscall.WaitStatus, error) {
	select {
	case <-p.ended:
		return p.cmd.ProcessState.Sys().(syscall.WaitStatus), nil
	case <-time.After(timeout):
		return 0, errors.New("the sink does not end")
	}
}
