package pgembed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that a server runs as. The zero value is the caller.
type account struct {
	name string
	cred *syscall.Credential
}

// serverAccount returns the caller, or, because Postgres refuses root, the
// user postgres and else nobody. The user must be known to the system: initdb
// asks for its name.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil || uid == 0 {
			continue
		}
		return account{name: name, cred: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return account{}, errors.New("Postgres does not run as root, and neither user postgres nor user nobody exists here: run as another user")
}

// own gives a file or directory to the account.
func (a account) own(path string) error {
	if a.cred == nil {
		return nil
	}
	return os.Chown(path, int(a.cred.Uid), int(a.cred.Gid))
}

// canRun reports whether the account reaches and runs the server program:
// tried, not computed from permission bits.
func (a account) canRun(ctx context.Context, b Binaries) error {
	cmd := exec.CommandContext(ctx, b.Path("postgres"), "--version")
	cmd.Dir = "/"
	cmd.Env = cleanEnv()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.cred}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("user %s cannot run %s: %w: %s", a.name, cmd.Path, err, firstLine(out))
	}
	return nil
}

// canUse reports whether the account can pass through dir.
func (a account) canUse(ctx context.Context, dir string) bool {
	if a.cred == nil {
		return true
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", `cd "$1"`, "sh", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.cred}
	return cmd.Run() == nil
}
