package conformance

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// plainAttributes puts a process in a group of its own, and ends it with us.
func plainAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// marked lists processes that have this variable in their environment and are no zombies.
func marked(variable string) []int {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil || pid == os.Getpid() {
			continue
		}
		// Empty for a zombie, and unreadable for another user's.
		env, err := os.ReadFile(filepath.Join(entry, "environ"))
		if err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+variable+"\x00")) {
			found = append(found, pid)
		}
	}
	return found
}
