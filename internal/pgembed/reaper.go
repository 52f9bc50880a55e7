package pgembed

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// reaperScript waits until its input ends, which happens when the process that
// started it ends in any way, and then removes the directory given as $1. With
// $2 = end it ends the server in it, which elsewhere the kernel has told; the
// server's number is believed only when its command line names the directory.
// What still works in the directory is killed: a backend that computes does
// not notice that its postmaster was killed.
const reaperScript = `
trap '' HUP INT TERM
while read -r _; do :; done
pid=
[ -r "$1/data/postmaster.pid" ] && read -r pid < "$1/data/postmaster.pid"
case $pid in *[!0-9]*) pid= ;; esac
if [ "$2" = end ] && [ -n "$pid" ]; then
  case $(ps -o args= -p "$pid") in *"$1"*) kill -QUIT "$pid" ;; esac
fi
n=0
while [ -n "$pid" ] && [ $n -lt 100 ] && [ -e "$1/data/postmaster.pid" ] && kill -0 "$pid" 2>/dev/null; do
  sleep 0.1
  n=$((n+1))
done
for p in /proc/[0-9]*; do
  [ "$(readlink "$p/cwd" 2>/dev/null)" = "$1/data" ] && kill -KILL "${p#/proc/}"
done
rm -rf "$1" || { sleep 1; rm -rf "$1"; }
`

// reaper is the process that cleans up after us when we cannot.
type reaper struct {
	cmd  *exec.Cmd
	life *os.File // our end of its input
}

// startReaper starts the reaper of a directory, as the account that owns it.
func startReaper(w workdir, who account) (*reaper, error) {
	in, life, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	end := "end"
	if runtime.GOOS == "linux" {
		end = "wait"
	}
	cmd := exec.Command("/bin/sh", "-c", reaperScript, "replicant-pg-reaper", w.base, end)
	cmd.Dir, cmd.Env, cmd.Stdin = "/", cleanEnv(), in
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: who.cred}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, life.Close())
	}
	return &reaper{cmd: cmd, life: life}, nil
}

// dismiss ends the reaper without letting it do its work.
func (r *reaper) dismiss() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait() // says that it was killed
	_ = r.life.Close()
}
