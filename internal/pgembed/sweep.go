package pgembed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Sweep removes what killed processes left: directories whose owner is gone,
// with any server that still runs in them. It touches only directories of the
// caller, or of the account that the caller's servers run as, that carry an
// owner file of this package. It returns the directories it removed.
//
// Start calls it; leftovers that cannot be removed do not keep a server from
// starting.
func Sweep(ctx context.Context) ([]string, error) {
	who, err := serverAccount()
	if err != nil {
		return nil, err
	}
	return sweep(tempRoot(ctx, who), who)
}

func sweep(root string, who account) ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(root, dirPrefix+"*"))
	if err != nil {
		return nil, err
	}
	var removed []string
	var errs []error
	for _, dir := range dirs {
		if !who.owns(dir) {
			continue
		}
		f, err := leftover(dir)
		if err != nil {
			continue // its owner lives, it is being made, or it is not ours
		}
		err = removeDead(workdir{base: dir})
		f.Close()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, dir)
	}
	return removed, errors.Join(errs...)
}

// owns reports whether dir is a real directory of the caller or the account.
func (a account) owns(dir string) bool {
	st, err := os.Lstat(dir)
	if err != nil || !st.IsDir() {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	return int(sys.Uid) == os.Geteuid() || a.cred != nil && sys.Uid == a.cred.Uid
}

// removeDead ends what runs in a directory without an owner and removes it.
func removeDead(w workdir) error {
	if err := endServers(w.data(), syscall.SIGQUIT, 5*time.Second); err != nil {
		return err
	}
	return w.remove()
}

// remove deletes the directory. A process that ends at this moment may still
// write into it, so a few attempts are made.
func (w workdir) remove() error {
	freeSharedMemory(w.data())
	var err error
	for range 20 {
		if err = os.RemoveAll(w.base); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// endServers signals every server process that works in the data directory and
// waits for its end; what is left after the patience is killed.
func endServers(data string, sig syscall.Signal, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		procs := serversIn(data)
		if len(procs) == 0 {
			return nil
		}
		late := time.Now().After(deadline)
		for _, p := range procs {
			if late {
				_ = p.Signal(syscall.SIGKILL)
			} else if sig != 0 {
				_ = p.Signal(sig)
			}
			_ = p.Release()
		}
		if time.Now().After(deadline.Add(5 * time.Second)) {
			return fmt.Errorf("processes in %s do not end", data)
		}
		sig = 0 // once
		time.Sleep(20 * time.Millisecond)
	}
}
