package child

import "syscall"

// attributes: a group of its own, and a polite end when we die without a word.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
