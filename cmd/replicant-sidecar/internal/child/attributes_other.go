//go:build !linux

package child

import "syscall"

// Attributes puts a process in a group of its own and, where the system can, ends it with
// us. The thread that starts it must live as long as it does.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
