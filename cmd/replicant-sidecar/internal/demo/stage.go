package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/cmd/replicant-sidecar/internal/child"
	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// stage keeps sidecar and sink running as processes: one that ends is started again.
type stage struct {
	sidecar, sink *actor
	admin         string
	client        http.Client
	lagBytes      int64
	lagWorst      float64
}

func newStage(o Options, dir, dsn string) (*stage, error) {
	admin, err := freeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	listen := "unix:" + filepath.Join(dir, "sink.sock")
	sinkEnv := append(os.Environ(), "REPLICANT_SINK_LISTEN="+listen, "REPLICANT_SINK_DB="+filepath.Join(dir, sinkFile))
	sidecarEnv := append(os.Environ(), "REPLICANT_SOURCE="+dsn)
	return &stage{
		sink: &actor{name: "sink", args: o.Sink, env: sinkEnv, log: log},
		sidecar: &actor{name: "sidecar", args: []string{
			o.Sidecar, "run", "--slot", "demo", "--publications", "shop", "--sink", listen,
			"--admin-listen", admin, "--go-forward-only", "--log-format", "json",
		}, env: sidecarEnv, log: log},
		admin: admin, client: http.Client{Timeout: 2 * time.Second},
	}, nil
}

// freeAddress is a loopback port that was free a moment ago.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// startMax bounds the wait for the first position to be stored: what the shop writes
// before that would not be ours to deliver.
const startMax = time.Minute

// start brings both up and waits until the stream has begun.
func (s *stage) start(ctx context.Context) error {
	s.sink.keepUp()
	s.sidecar.keepUp()
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	for {
		if st, err := s.status(ctx); err == nil && (st.State == "streaming" || st.State == "catching_up") {
			return nil
		}
		for _, a := range []*actor{s.sink, s.sidecar} {
			if err := a.failed(); err != nil {
				return fmt.Errorf("%w\n%s", err, a.lastLines())
			}
		}
		if !until(ctx, time.Now().Add(50*time.Millisecond)) {
			return fmt.Errorf("the stream did not begin within %s\n%s", startMax, s.sidecar.lastLines())
		}
	}
}

// status is the part of /statusz that the demo looks at.
type status struct {
	State        string  `json:"state"`
	Reason       string  `json:"reason"`
	Durable      lsnText `json:"durable"`
	LagBytes     int64   `json:"lag_bytes"`
	LagSeconds   float64 `json:"lag_seconds"`
	Transactions int64   `json:"transactions"`
	Changes      int64   `json:"changes"`
	Replayed     int64   `json:"replayed"`
	Units        int64   `json:"units"`
}

type lsnText core.LSN

// UnmarshalText reads X/X.
func (l *lsnText) UnmarshalText(text []byte) error {
	lsn, err := core.ParseLSN(string(text))
	*l = lsnText(lsn)
	return err
}

func (s *stage) status(ctx context.Context) (status, error) {
	var st status
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+"/statusz", nil)
	if err != nil {
		return st, err
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return st, err
	}
	defer answer.Body.Close()
	err = json.NewDecoder(answer.Body).Decode(&st)
	if err == nil {
		s.lagWorst = max(s.lagWorst, st.LagSeconds)
	}
	return st, err
}

// drained waits until the sink has stored everything up to the last row.
func (s *stage) drained(ctx context.Context, last core.LSN) (time.Duration, error) {
	began := time.Now()
	for {
		st, err := s.status(ctx)
		if err == nil && core.LSN(st.Durable) > last {
			s.lagBytes = st.LagBytes
			return time.Since(began), nil
		}
		if !until(ctx, time.Now().Add(20*time.Millisecond)) {
			return time.Since(began), fmt.Errorf("the last row did not arrive within %s (state %s)", drainMax, st.State)
		}
	}
}

// stop ends the sidecar first, so that it drains, then the sink.
func (s *stage) stop() {
	s.sidecar.stop()
	s.sink.stop()
}

func (s *stage) close() {
	s.stop()
	s.client.CloseIdleConnections()
	_ = s.sink.log.Close()
}

// actor is one process that is started again when it ends.
type actor struct {
	name string
	args []string
	env  []string
	log  *os.File

	mu       sync.Mutex
	cmd      *exec.Cmd
	stopping bool
	ended    chan struct{} // closed when keepUp has given up
	quick    int           // ends in a row soon after a start that nobody ordered
	ordered  map[int]bool  // pids that were killed on purpose
	died     map[int]*os.ProcessState
	restarts int
}

// quickEnd within which an end counts as a failure to start, and how many in a row are
// enough to say so.
const (
	quickEnd  = 3 * time.Second
	quickEnds = 4
)

func (a *actor) keepUp() {
	a.ended, a.ordered, a.died = make(chan struct{}), map[int]bool{}, map[int]*os.ProcessState{}
	ready := make(chan struct{})
	go func() {
		defer close(a.ended)
		runtime.LockOSThread() // the process dies with the thread that started it
		defer runtime.UnlockOSThread()
		for first := true; ; first = false {
			began := time.Now()
			wait, err := a.spawn()
			if first {
				close(ready)
			}
			if err == nil {
				err = wait()
			}
			if a.over(err, time.Since(began)) {
				return
			}
		}
	}()
	<-ready
}

func (a *actor) spawn() (wait func() error, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopping {
		return nil, errors.New("stopping")
	}
	cmd := exec.Command(a.args[0], a.args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = a.env, a.log, a.log
	cmd.SysProcAttr = child.Attributes()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	a.cmd = cmd
	return func() error {
		err := cmd.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.died[cmd.Process.Pid] = cmd.ProcessState
		return err
	}, nil
}

// over reports whether the actor is not to be started again.
func (a *actor) over(err error, lived time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopping {
		return true
	}
	a.restarts++
	onPurpose := a.cmd != nil && a.ordered[a.cmd.Process.Pid]
	if onPurpose || lived > quickEnd {
		a.quick = 0
	} else {
		a.quick++
	}
	var exit *exec.ExitError
	return a.quick >= quickEnds || a.name == "sidecar" && errors.As(err, &exit) && exit.ExitCode() > 1
}

// failed reports that the actor was given up.
func (a *actor) failed() error {
	select {
	case <-a.ended:
		return fmt.Errorf("the %s does not stay up", a.name)
	default:
		return nil
	}
}

// kill sends SIGKILL and reports the pid, once the kernel has confirmed that this very
// process died of it.
func (a *actor) kill() (pid int, landed bool) {
	a.mu.Lock()
	cmd := a.cmd
	if cmd == nil || a.stopping {
		a.mu.Unlock()
		return 0, false
	}
	pid = cmd.Process.Pid
	a.ordered[pid] = true
	err := cmd.Process.Kill()
	a.mu.Unlock()
	if err != nil {
		return pid, false
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		a.mu.Lock()
		state := a.died[pid]
		a.mu.Unlock()
		if state != nil {
			status, ok := state.Sys().(syscall.WaitStatus)
			return pid, ok && status.Signaled() && status.Signal() == syscall.SIGKILL
		}
	}
	return pid, false
}

const stopGrace = 20 * time.Second

func (a *actor) stop() {
	a.mu.Lock()
	if a.ended == nil || a.stopping {
		a.mu.Unlock()
		return
	}
	a.stopping = true
	cmd := a.cmd
	a.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	select {
	case <-a.ended:
	case <-time.After(stopGrace):
		if cmd != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		<-a.ended
	}
}

// lastLines is the end of the common log, for an error.
func (a *actor) lastLines() string {
	b, err := os.ReadFile(a.log.Name())
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	const enough = 2000
	return string(b[max(0, len(b)-enough):])
}
