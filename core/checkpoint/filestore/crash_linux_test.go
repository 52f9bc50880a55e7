package filestore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint/filestore"
)

// The test binary also plays the processes that are killed, that find the disk full, and
// that lack rights.
const playEnv, dirEnv = "FILESTORE_TEST_PLAY", "FILESTORE_TEST_DIR"

func TestMain(m *testing.M) {
	plays := map[string]func(dir string) error{"writer": writer, "full": full, "rights": rights}
	if play := plays[os.Getenv(playEnv)]; play != nil {
		if err := play(os.Getenv(dirEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func command(t *testing.T, play, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), playEnv+"="+play, dirEnv+"="+dir)
	return cmd
}

// writer claims and moves the row on for ever, and says each position once it is stored.
func writer(dir string) error {
	s, err := filestore.Open(dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	r, _, err := s.Read(ctx, "orders")
	if err != nil {
		return err
	}
	r, err = s.Claim(ctx, claiming(r.Epoch, mine))
	for at := r.Position; err == nil; at++ {
		err = s.Advance(ctx, move(r.Epoch, mine, at, at+1))
		if err == nil {
			fmt.Println(uint64(at + 1))
		}
	}
	return err
}

// TestKilledWriters: whenever a writer is killed, the row is whole, and is the last one it
// said or the one after.
func TestKilledWriters(t *testing.T) {
	const rounds = 60
	dir := t.TempDir()
	var said, epoch uint64
	between := 0
	for round := range rounds {
		cmd := command(t, "writer", dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		lines := bufio.NewReader(out)
		first, err := lines.ReadString('\n')
		require.NoError(t, err, stderr.String())
		time.Sleep(time.Duration(round%20) * 197 * time.Microsecond)
		require.NoError(t, cmd.Process.Kill())
		rest, err := io.ReadAll(lines)
		require.NoError(t, err)
		err = cmd.Wait()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
		all := strings.Fields(first + string(rest))
		said, err = strconv.ParseUint(all[len(all)-1], 10, 64)
		require.NoError(t, err)

		s, err := filestore.Open(dir)
		require.NoError(t, err)
		r, found, err := s.Read(t.Context(), "orders")
		require.NoError(t, err)
		require.True(t, found)
		require.GreaterOrEqual(t, uint64(r.Position), said)
		require.LessOrEqual(t, uint64(r.Position), said+1)
		require.Equal(t, r.Position-1, r.Base)
		require.Equal(t, epoch+1, r.Epoch)
		epoch = r.Epoch
		require.NoError(t, s.Close())
		left, err := filepath.Glob(filepath.Join(dir, "*.new"))
		require.NoError(t, err)
		between += len(left)
	}
	require.NotZero(t, between, "no kill fell between the new file and its name")
}

// full fills a file system of its own, and makes room again.
func full(dir string) error {
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=32k,mode=700"); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := filestore.Open(dir)
	if err != nil {
		return err
	}
	if _, err := s.Claim(ctx, claiming(0, mine)); err != nil {
		return err
	}
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk is not full: %w", err)
	}
	for range 3 {
		var away *checkpoint.UnavailableError
		if err := s.Advance(ctx, move(1, mine, 0, 5)); !errors.As(err, &away) || !strings.Contains(away.Reason, "no space left") {
			return fmt.Errorf("on a full disk: %w", err)
		}
		if r, found, err := s.Read(ctx, "orders"); err != nil || !found || r.Position != 0 {
			return fmt.Errorf("the row on a full disk: %v %v %w", r, found, err)
		}
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	return s.Advance(ctx, move(1, mine, 0, 5))
}

// rights has a directory it may not write to, and then a file it may not read.
func rights(dir string) error {
	ctx := context.Background()
	s, err := filestore.Open(dir)
	if err != nil {
		return err
	}
	_, err = s.Claim(ctx, claiming(0, mine))
	if h, ok := core.AsHalt(err); !ok || h.Code != core.HaltStoreInvalid || !strings.Contains(err.Error(), "permission denied") {
		return fmt.Errorf("in a directory without the right to write: %w", err)
	}
	return nil
}

// inNamespace gives a process mounts of its own, which end with it.
func inNamespace(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

// TestDiskFull: a full disk is waited for, and the row stays what it was.
func TestDiskFull(t *testing.T) {
	cmd := command(t, "full", t.TempDir())
	inNamespace(cmd)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "this test needs user namespaces: %s", out)
}

// TestReadOnlyDirectory runs as somebody who is not root, for whom rights count.
func TestReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o555))
	cmd := command(t, "rights", dir)
	if os.Getuid() == 0 {
		const nobody = 65534
		for at := dir; at != filepath.Clean(os.TempDir()); at = filepath.Dir(at) {
			require.NoError(t, os.Chmod(at, 0o555))
		}
		binary := filepath.Join(filepath.Dir(dir), "play")
		content, err := os.ReadFile(os.Args[0])
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(binary, content, 0o755))
		cmd.Path = binary
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
