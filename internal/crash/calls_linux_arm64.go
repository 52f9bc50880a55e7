package crash

import "golang.org/x/sys/unix"

const (
	// arch is how seccomp names this instruction set.
	arch = unix.AUDIT_ARCH_AARCH64
	// foreign is the first number of calls that would slip through; there are none here.
	foreign = 0
)

// here are the calls that only this architecture has.
var here []call
