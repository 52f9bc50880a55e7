//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// releasePoll is how often a blocked point looks for its release file.
const releasePoll = 5 * time.Millisecond

// InjectedError is what Hit returns at a point with the action error.
type InjectedError struct{ Point Point }

// Error names the point.
func (e *InjectedError) Error() string { return "failpoint " + string(e.Point) }

// pass counts the passage and does what is armed for it; one passage has one order.
func (a *arms) pass(p Point) error {
	point := a.points[p]
	if point == nil {
		return nil
	}
	ordinal := point.passed.Add(1)
	for _, o := range point.orders {
		if o.at(ordinal) {
			a.testify(p, ordinal, o.action)
			return o.act(p)
		}
	}
	return nil
}

// testify writes the witness line in one piece. Without it nothing may happen.
func (a *arms) testify(p Point, ordinal int64, action string) {
	if _, err := fmt.Fprintf(a.witness, "%s %d %d %s\n", p, ordinal, os.Getpid(), action); err != nil {
		panic("failpoint: the witness cannot be written: " + err.Error())
	}
}

func (o order) act(p Point) error {
	switch o.action {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way; nothing more runs here
	case "block":
		for !exists(o.release) {
			time.Sleep(releasePoll)
		}
	case "delay":
		time.Sleep(o.wait)
	case "error":
		return &InjectedError{p}
	}
	return nil
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}
