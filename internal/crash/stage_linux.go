//go:build amd64 || arm64

package crash

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// This binary, started again with these two variables, is one of our two stages. The
// program gets neither of them.
const (
	stageEnv = "REPLICANT_CRASH_STAGE"
	planEnv  = "REPLICANT_CRASH_PLAN"
)

// plan is what the stages are told beside the program's arguments and environment.
type plan struct {
	Path       string
	Credential *syscall.Credential
	Classes    Class
	Cookie     uint64
	Keeper     int // process id, for the second stage
}

// report is a datagram from a stage to us.
type report struct {
	// Step says what failed, or, with Errno 0, what was reached.
	Step   string
	Errno  int
	PID    int
	Status uint32
}

// The steps that a stage reports.
const (
	stepListener = "seccomp filter" // its success carries the listener
	stepPrepare  = "preparation"
	stepExec     = "exec"
	stepEnded    = "ended" // the program has ended with Status
)

// killOrder is the one word that we send to the keeper.
const killOrder = "kill"

// init takes the process over when it is a stage. It is the only way to get in before
// the program that imports us: a stage needs no word in its main. It ends without the
// ceremony of os.Exit, for which the race detector takes a second.
func init() {
	stage := os.Getenv(stageEnv)
	if stage != "keeper" && stage != "stub" {
		return
	}
	var p plan
	if err := json.Unmarshal([]byte(os.Getenv(planEnv)), &p); err != nil {
		syscall.Exit(2)
	}
	if stage == "keeper" {
		keep(p)
	} else {
		become(p)
	}
	syscall.Exit(0)
}

// stageEnviron is an environment with the two variables in it, or without them when the
// stage is empty.
func stageEnviron(environ []string, stage string, p plan) []string {
	var all []string
	for _, entry := range environ {
		if !strings.HasPrefix(entry, stageEnv+"=") && !strings.HasPrefix(entry, planEnv+"=") {
			all = append(all, entry)
		}
	}
	if stage == "" {
		return all
	}
	text, _ := json.Marshal(p) // a struct of plain fields
	return append(all, stageEnv+"="+stage, planEnv+"="+string(text))
}

// tell sends a report. The cookie lets it pass our own filter; rights may carry a file.
func tell(fd int, r report, cookie uint64, rights []byte) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return sendmsg(fd, text, rights, cookie)
}

func errnoOf(err error) int {
	if e, ok := err.(unix.Errno); ok {
		return int(e)
	}
	return int(unix.EIO)
}
