//go:build unix && !linux

package pgembed

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// serversIn returns the postmaster of the data directory when it runs. Its
// number comes from the directory and its command line must name it.
func serversIn(data string) []*os.Process {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return nil
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line)))
	if err != nil || pid <= 1 {
		return nil
	}
	args, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	if err != nil || !bytes.Contains(args, []byte(data)) {
		return nil
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return nil
	}
	return []*os.Process{p}
}

// freeSharedMemory does nothing here: the segment a killed postmaster leaves
// is small and goes with the next boot.
func freeSharedMemory(string) {}
