//go:build unix && !linux

package pgembed

import "syscall"

// attr makes a child in its own process group, so that a Ctrl-C at the
// terminal reaches it only through us. The reaper ends it when we are killed.
func attr(a account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: a.cred}
}
