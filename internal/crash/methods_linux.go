//go:build amd64 || arm64

package crash

import (
	"encoding/json"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// PID is the program's process id.
func (r *Run) PID() int { return r.pid }

// Count is how many calls were counted since the start or the last Arm.
func (r *Run) Count() int { return r.watch.result().Count }

// Arm chooses another call, counted from now on, from 1. A hit that was scored before is
// forgotten. It is for programs that have to be brought to a place first, such as a
// Postgres backend that is about to commit.
func (r *Run) Arm(s Shot) { r.watch.arm(s) }

// Hit is closed when the chosen call is reached. Arm makes a new channel.
func (r *Run) Hit() <-chan struct{} { return r.watch.hitChannel() }

// Last is the hit that Hit announced, nil before.
func (r *Run) Last() *Hit { return r.watch.result().Hit }

// Signal sends a signal to the program; an error when it has ended.
func (r *Run) Signal(s unix.Signal) error {
	select {
	case <-r.done:
		return unix.ESRCH
	default:
		return unix.Kill(r.pid, s)
	}
}

// Kill kills the whole tree. Wait returns when it is gone.
func (r *Run) Kill() {
	// The keeper reads one word; should it be gone, so is the tree.
	r.killOnce.Do(func() { _, _ = r.keeper.Write([]byte(killOrder)) })
}

// Done is closed when nobody of the run is left.
func (r *Run) Done() <-chan struct{} { return r.done }

// Wait returns when the program has ended and nobody of its tree is left. The error is
// not about the program, whose end is Result.Status.
func (r *Run) Wait() (Result, error) {
	<-r.done
	return r.result, r.err
}

// receive reads one report and the file it may carry, -1 if none.
func receive(conn *net.UnixConn) (report, int, error) {
	text, oob := make([]byte, 512), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := conn.ReadMsgUnix(text, oob)
	if err != nil {
		return report{}, -1, err
	}
	fd := -1
	if messages, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil && len(messages) == 1 {
		if fds, err := unix.ParseUnixRights(&messages[0]); err == nil && len(fds) == 1 {
			fd = fds[0]
			unix.CloseOnExec(fd)
		}
	}
	var r report
	err = json.Unmarshal(text[:n], &r)
	return r, fd, err
}
