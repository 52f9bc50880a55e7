//go:build amd64 || arm64

package crash

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The keeper's descriptors beside the standard three.
const (
	keeperSocket  = 3 // to us; its end means that we are gone
	stubsOnKeeper = 4 // handed on to the second stage
)

// killInterval is the pause between two rounds of killing: who was just being born is
// found in the next.
const killInterval = time.Millisecond

// keep is the first stage. It starts the second, which becomes the program, adopts
// whatever that leaves behind, and ends when nobody is left.
func keep(p plan) {
	unix.CloseOnExec(keeperSocket)
	unix.CloseOnExec(stubsOnKeeper)
	main, err := startStub(p)
	if err != nil {
		_ = tell(keeperSocket, report{Step: stepPrepare, Errno: errnoOf(err)}, 0, nil)
		return
	}
	_ = unix.Close(stubsOnKeeper)
	go obey()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return // ECHILD: nobody is left
		case pid == main && (status.Exited() || status.Signaled()):
			_ = tell(keeperSocket, report{Step: stepEnded, PID: pid, Status: uint32(status)}, 0, nil)
			go killAll()
		}
	}
}

func startStub(p plan) (int, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	p.Keeper = os.Getpid()
	// Forked from the first thread, as init runs there: the stub dies with its forker.
	stub, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Env:   stageEnviron(os.Environ(), "stub", p),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, os.NewFile(stubsOnKeeper, "stub")},
	})
	if err != nil {
		if failed, ok := err.(*os.PathError); ok {
			err = failed.Err
		}
		return 0, err
	}
	return stub.Pid, nil
}

// obey kills the tree when we say so, and when we are gone.
func obey() {
	buf := make([]byte, len(killOrder))
	for {
		_, _, err := unix.Recvfrom(keeperSocket, buf, 0)
		if err == unix.EINTR {
			continue
		}
		killAll()
	}
}

// killAll kills whoever is below us until the process ends because nobody is.
func killAll() {
	for {
		for _, pid := range descendants(os.Getpid()) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(killInterval)
	}
}
