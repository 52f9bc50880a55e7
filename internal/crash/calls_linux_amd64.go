package crash

import "golang.org/x/sys/unix"

const (
	// arch is how seccomp names this instruction set.
	arch = unix.AUDIT_ARCH_X86_64
	// foreign is the first number of the x32 calls, which would slip through; 0 where
	// there is no such thing.
	foreign = 0x40000000
)

// here are the calls that only this architecture has.
var here = []call{
	{unix.SYS_OPEN, "open", Create, -1, 1, true},
	{unix.SYS_CREAT, "creat", Create, -1, -1, true},
	{unix.SYS_MKDIR, "mkdir", Create, -1, -1, true},
	{unix.SYS_MKNOD, "mknod", Create, -1, -1, true},
	{unix.SYS_LINK, "link", Create, -1, -1, true},
	{unix.SYS_SYMLINK, "symlink", Create, -1, -1, true},
	{unix.SYS_RENAME, "rename", Rename, -1, -1, true},
	{unix.SYS_UNLINK, "unlink", Rename, -1, -1, false},
	{unix.SYS_RMDIR, "rmdir", Rename, -1, -1, false},
}
