//go:build amd64 || arm64

package crash

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is who makes a call. Its methods read the system's tables at the moment they
// are called, while the process waits; later they mean nothing.
type Process struct{ tid int }

// TID is the thread.
func (p Process) TID() int { return p.tid }

// PID is the process, 0 when it is gone.
func (p Process) PID() int { return p.number("Tgid:") }

// Parent is the process that p is a child of now, 0 when p is gone.
func (p Process) Parent() int { return p.number("PPid:") }

// Comm is the kernel's short name of the thread, at most 15 bytes.
func (p Process) Comm() string {
	text, _ := os.ReadFile(p.path("comm"))
	return strings.TrimSuffix(string(text), "\n")
}

// Title is the command line, its words parted by blanks, as the process shows it now. A
// Postgres backend puts user, database and command there.
func (p Process) Title() string {
	text, _ := os.ReadFile(p.path("cmdline"))
	return strings.TrimSpace(string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
}

func (p Process) number(field string) int {
	text, _ := os.ReadFile(p.path("status"))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(value))
			return n
		}
	}
	return 0
}

func (p Process) path(name string) string { return fmt.Sprintf("/proc/%d/%s", p.tid, name) }

// classOf says what the file of a write is: Write, Network, or nothing that counts. A
// file that cannot be looked at counts.
func (p Process) classOf(fd uint64) Class {
	var st unix.Stat_t
	if err := unix.Stat(p.path("fd/"+strconv.FormatInt(int64(int32(fd)), 10)), &st); err != nil {
		if err == unix.ENOENT {
			return 0 // no such descriptor: the call will fail
		}
		return Write
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFBLK:
		return Write
	case unix.S_IFSOCK:
		return Network
	}
	return 0
}

// openFlags reads the flags of an openat2 in the memory of p.
func (p Process) openFlags(how uint64) uint64 {
	var flags [8]byte
	local := []unix.Iovec{{Base: &flags[0], Len: 8}}
	remote := []unix.RemoteIovec{{Base: uintptr(how), Len: 8}}
	if n, err := unix.ProcessVMReadv(p.tid, local, remote, 0); err != nil || n != 8 {
		return creating // cannot be looked at: counts
	}
	var v uint64
	for i := range flags {
		v |= uint64(flags[i]) << (8 * i)
	}
	return v
}

// descendants lists the living processes below root, which is not among them.
func descendants(root int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	parent, alive := map[int]int{}, map[int]bool{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		// "pid (name) state parent ...", and the name may hold anything.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) < 2 {
			continue
		}
		parent[pid], _ = strconv.Atoi(fields[1])
		alive[pid] = fields[0] != "Z" && fields[0] != "X"
	}
	var below []int
	for pid := range parent {
		for p := parent[pid]; p != 0; p = parent[p] {
			if p == root {
				if alive[pid] {
					below = append(below, pid)
				}
				break
			}
		}
	}
	return below
}
