//go:build amd64 || arm64

package crash

import "golang.org/x/sys/unix"

// call is what is known of a system call.
type call struct {
	nr    int
	name  string
	class Class
	// fd is the argument whose file decides the class: a file keeps it, a socket makes
	// it Network, anything else does not count. -1 where the class is fixed.
	fd int
	// flags is the argument with the flags of an open, -1 elsewhere.
	flags int
	// full is true where ENOSPC is an answer to be expected.
	full bool
}

// creating are the flags of an open that count.
const creating = unix.O_CREAT | unix.O_TRUNC | tmpfile

// tmpfile is the bit of O_TMPFILE that is its own.
const tmpfile = unix.O_TMPFILE &^ unix.O_DIRECTORY

// everywhere are the calls that all architectures have.
var everywhere = []call{
	{unix.SYS_OPENAT, "openat", Create, -1, 2, true},
	{unix.SYS_OPENAT2, "openat2", Create, -1, -1, true},
	{unix.SYS_MKDIRAT, "mkdirat", Create, -1, -1, true},
	{unix.SYS_MKNODAT, "mknodat", Create, -1, -1, true},
	{unix.SYS_LINKAT, "linkat", Create, -1, -1, true},
	{unix.SYS_SYMLINKAT, "symlinkat", Create, -1, -1, true},

	{unix.SYS_WRITE, "write", Write, 0, -1, true},
	{unix.SYS_WRITEV, "writev", Write, 0, -1, true},
	{unix.SYS_PWRITE64, "pwrite64", Write, 0, -1, true},
	{unix.SYS_PWRITEV, "pwritev", Write, 0, -1, true},
	{unix.SYS_PWRITEV2, "pwritev2", Write, 0, -1, true},
	{unix.SYS_COPY_FILE_RANGE, "copy_file_range", Write, 2, -1, true},
	{unix.SYS_SPLICE, "splice", Write, 2, -1, true},
	{unix.SYS_SENDFILE, "sendfile", Write, 0, -1, true},

	{unix.SYS_FSYNC, "fsync", Sync, -1, -1, true},
	{unix.SYS_FDATASYNC, "fdatasync", Sync, -1, -1, true},
	{unix.SYS_SYNC_FILE_RANGE, "sync_file_range", Sync, -1, -1, true},
	{unix.SYS_MSYNC, "msync", Sync, -1, -1, false},
	{unix.SYS_SYNC, "sync", Sync, -1, -1, false},
	{unix.SYS_SYNCFS, "syncfs", Sync, -1, -1, true},

	{unix.SYS_TRUNCATE, "truncate", Resize, -1, -1, false},
	{unix.SYS_FTRUNCATE, "ftruncate", Resize, -1, -1, false},
	{unix.SYS_FALLOCATE, "fallocate", Resize, -1, -1, true},

	{unix.SYS_RENAMEAT2, "renameat2", Rename, -1, -1, true},
	{unix.SYS_RENAMEAT, "renameat", Rename, -1, -1, true},
	{unix.SYS_UNLINKAT, "unlinkat", Rename, -1, -1, false},

	{unix.SYS_CONNECT, "connect", Network, -1, -1, false},
	{unix.SYS_ACCEPT, "accept", Network, -1, -1, false},
	{unix.SYS_ACCEPT4, "accept4", Network, -1, -1, false},
	{unix.SYS_SENDTO, "sendto", Network, -1, -1, false},
	{unix.SYS_SENDMSG, "sendmsg", Network, -1, -1, false},
	{unix.SYS_SENDMMSG, "sendmmsg", Network, -1, -1, false},
}

// known are all calls by number.
var known = func() map[int]*call {
	all := map[int]*call{}
	for _, list := range [][]call{everywhere, here} {
		for i := range list {
			all[list[i].nr] = &list[i]
		}
	}
	return all
}()
