//go:build !linux

package conformance

import "syscall"

// plainAttributes puts a process in a group of its own.
func plainAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// marked finds nothing: other systems do not show environments.
func marked(string) []int { return nil }

// descendants finds nobody: other systems tell parents in ways of their own.
func descendants(int) []lineage { return nil }

func (lineage) runs() bool { return false }
