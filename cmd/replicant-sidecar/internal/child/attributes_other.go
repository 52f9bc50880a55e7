//go:build !linux

package child

import "syscall"

// attributes: a group of its own. Only Linux tells a child that its parent died.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
