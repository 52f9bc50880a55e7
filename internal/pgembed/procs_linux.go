package pgembed

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// serversIn returns handles of the Postgres processes, postmaster and
// children, that work in the data directory. The kernel's own word for it is
// taken: the working directory of a process, read after its handle was opened,
// so that a handle never means a stranger with a used number.
func serversIn(data string) []*os.Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []*os.Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !worksIn(pid, data) {
			continue
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if !worksIn(pid, data) {
			_ = p.Release()
			continue
		}
		out = append(out, p)
	}
	return out
}

func worksIn(pid int, data string) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	cwd, err := os.Readlink(filepath.Join(proc, "cwd"))
	if err != nil || cwd != data {
		return false
	}
	comm, err := os.ReadFile(filepath.Join(proc, "comm"))
	return err == nil && bytes.HasPrefix(comm, []byte("postgres"))
}

// freeSharedMemory removes the small System V segment that a killed postmaster
// leaves in the kernel. It is taken for ours when the postmaster named in the
// data directory made it and nobody is attached.
func freeSharedMemory(data string) {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return
	}
	lines := bytes.Split(text, []byte("\n"))
	if len(lines) < 7 {
		return
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(lines[0])))
	if err != nil {
		return
	}
	var key, id int
	if n, err := fmt.Sscan(string(lines[6]), &key, &id); n != 2 || err != nil {
		return
	}
	var desc unix.SysvShmDesc
	if _, err := unix.SysvShmCtl(id, unix.IPC_STAT, &desc); err != nil {
		return
	}
	if int(desc.Cpid) == pid && desc.Nattch == 0 {
		_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	}
}
