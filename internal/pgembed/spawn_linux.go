package pgembed

import "syscall"

// attr makes a child that dies with us: its own process group, so that a
// Ctrl-C at the terminal reaches it only through us, and a signal from the
// kernel when the thread that forked it ends. SIGQUIT is Postgres' immediate
// shutdown: fast shutdown would wait for walsenders whose receivers may hang.
func attr(a account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: a.cred, Pdeathsig: syscall.SIGQUIT}
}
