//go:build amd64 || arm64

package crash

import (
	"cmp"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// Where the filter finds things: struct seccomp_data. Both architectures are little
// endian, so the low half of an argument comes first.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
)

func atArg(i int) uint32 { return uint32(atArgs + 8*i) }

// Short names for the instructions of the filter.
func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func jump(test uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | test, K: k, Jt: yes, Jf: no}
}

func answer(verdict uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: verdict}
}

// filter reports the calls of the classes. Of sendmsg it lets through the
// one that carries the cookie in an argument which the call does not have: by it the
// listener itself leaves the process that is already filtered.
func filter(classes Class, cookie uint64) []unix.SockFilter {
	program := []unix.SockFilter{
		load(atArch),
		jump(unix.BPF_JEQ, arch, 1, 0),
		answer(unix.SECCOMP_RET_KILL_PROCESS),
		load(atNumber),
	}
	if foreign != 0 {
		program = append(program, jump(unix.BPF_JGE, foreign, 0, 1), answer(unix.SECCOMP_RET_KILL_PROCESS))
	}
	program = append(program,
		jump(unix.BPF_JEQ, unix.SYS_SENDMSG, 0, 6),
		load(atArg(5)),
		jump(unix.BPF_JEQ, uint32(cookie), 0, 3),
		load(atArg(5)+4),
		jump(unix.BPF_JEQ, uint32(cookie>>32), 0, 1),
		answer(unix.SECCOMP_RET_ALLOW),
		load(atNumber),
		jump(unix.BPF_JEQ, unix.SYS_IO_URING_SETUP, 0, 1),
		answer(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)),
	)
	for _, c := range reported(classes) {
		if c.flags < 0 {
			program = append(program, jump(unix.BPF_JEQ, uint32(c.nr), 0, 1), answer(unix.SECCOMP_RET_USER_NOTIF))
			continue
		}
		program = append(program,
			jump(unix.BPF_JEQ, uint32(c.nr), 0, 4),
			load(atArg(c.flags)),
			jump(unix.BPF_JSET, creating, 0, 1),
			answer(unix.SECCOMP_RET_USER_NOTIF),
			answer(unix.SECCOMP_RET_ALLOW),
		)
	}
	return append(program, answer(unix.SECCOMP_RET_ALLOW))
}

// reported lists the calls that may fall into one of the classes, in a fixed order.
func reported(classes Class) []*call {
	var list []*call
	for _, c := range slices.SortedFunc(maps.Values(known), func(a, b *call) int { return cmp.Compare(a.nr, b.nr) }) {
		if c.class&classes != 0 || c.fd >= 0 && classes&Network != 0 {
			list = append(list, c)
		}
	}
	return list
}
