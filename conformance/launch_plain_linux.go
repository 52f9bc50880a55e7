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
	if variable == "" {
		return nil
	}
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

// descendants are the processes below one, by their parents.
func descendants(root int) []lineage {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	children := map[int][]lineage{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		if state, parent, began := statOf(pid); state != "" {
			children[parent] = append(children[parent], lineage{pid, began})
		}
	}
	all := children[root]
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i].pid]...)
	}
	return all
}

// runs reports whether it is still there, and no zombie.
func (l lineage) runs() bool {
	state, _, began := statOf(l.pid)
	return state != "" && state != "Z" && began == l.began
}

// statOf reads what the kernel says of a process; the state is empty where there is none.
func statOf(pid int) (state string, parent int, began string) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", 0, ""
	}
	// The name stands in parentheses and may hold any letter, so what follows the last one counts.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return "", 0, ""
	}
	parent, err = strconv.Atoi(string(fields[1]))
	if err != nil {
		return "", 0, ""
	}
	return string(fields[0]), parent, string(fields[19])
}
