package failpoint

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The engine is tested in real processes of a test build, since most of what it does
// ends or stops its process.
var passer = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "failpoint")
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "passer")
	text, err := exec.Command("go", "build", "-tags", "failpoints", "-o", out, "./testdata/passer").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return out, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built, err := passer(); err == nil {
		_ = os.RemoveAll(filepath.Dir(built))
	}
	os.Exit(code)
}

type passed struct {
	cmd     *exec.Cmd
	out     strings.Builder
	witness string
}

func start(t *testing.T, manner, points string) *passed {
	t.Helper()
	program, err := passer()
	require.NoError(t, err)
	p := &passed{witness: filepath.Join(t.TempDir(), "witness")}
	p.cmd = exec.Command(program, manner, "4")
	p.cmd.Env = []string{"REPLICANT_FAILPOINTS=" + points, "REPLICANT_FAILPOINT_WITNESS=" + p.witness}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	return p
}

// saw waits for the end and requires one witness a line given, all of this process.
func (p *passed) saw(t *testing.T, lines ...string) syscall.WaitStatus {
	t.Helper()
	_ = p.cmd.Wait()
	all, err := ReadWitness(p.witness)
	require.NoError(t, err)
	var got []string
	for _, w := range all {
		require.Equal(t, p.cmd.Process.Pid, w.PID)
		got = append(got, fmt.Sprintf("%s %d %s", w.Point, w.Ordinal, w.Action))
	}
	require.Equal(t, lines, got)
	return p.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

func TestKill(t *testing.T) {
	for ordinal, printed := range map[string]string{"": "", "@1": "", "@3": "1 <nil>\n2 <nil>\n"} {
		p := start(t, "careful", "call.before=kill"+ordinal)
		status := p.saw(t, fmt.Sprintf("call.before %s kill", strings.TrimPrefix(ordinal+"1", "@")[:1]))
		require.True(t, status.Signaled())
		require.Equal(t, syscall.SIGKILL, status.Signal())
		require.Equal(t, printed, p.out.String())
	}
}

func TestNotReached(t *testing.T) {
	p := start(t, "careful", "call.before=kill@5;claim.before=kill")
	require.Zero(t, p.saw(t).ExitStatus())
	require.Contains(t, p.out.String(), "other <nil>")
}

func TestBlock(t *testing.T) {
	release := filepath.Join(t.TempDir(), "release")
	p := start(t, "careful", "call.before=block:"+release+"@2")
	require.Eventually(t, func() bool {
		all, err := ReadWitness(p.witness)
		return err == nil && len(all) == 1
	}, 90*time.Second, time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.Signal(0)), "it still runs")
	require.NoError(t, os.WriteFile(release, nil, 0o600))
	require.Zero(t, p.saw(t, "call.before 2 block").ExitStatus())
	require.Contains(t, p.out.String(), "other <nil>")
}

func TestDelayAndErrorAndMany(t *testing.T) {
	began := time.Now()
	p := start(t, "careful", "call.before=delay:50ms@2; call.before=error@3+ ;deliver.after=error;")
	require.Zero(t, p.saw(t, "call.before 2 delay", "call.before 3 error", "call.before 4 error", "deliver.after 1 error").ExitStatus())
	require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond)
	require.Equal(t, "1 <nil>\n2 <nil>\n3 failpoint call.before\n4 failpoint call.before\nother failpoint deliver.after\n", p.out.String())
}

func TestRefusedAtTheStart(t *testing.T) {
	for points, says := range map[string]string{
		"call.befor=kill":                         `there is no point "call.befor"`,
		"call.before":                             "want point=action",
		"call.before=die":                         "the actions are",
		"call.before=kill:now":                    "kill takes no argument",
		"call.before=kill@0":                      "an ordinal is",
		"call.before=kill@+1":                     "an ordinal is",
		"call.before=kill@":                       "an ordinal is",
		"call.before=kill@x":                      "an ordinal is",
		"call.before=block":                       "absolute path",
		"call.before=block:here":                  "absolute path",
		"call.before=delay":                       "needs a duration",
		"call.before=delay:-1s":                   "needs a duration",
		"call.before=error:x":                     "error takes no argument",
		"read.change=error":                       "cannot return an error",
		"call.before=kill;call.before=error":      "armed twice",
		"call.before=kill@4;call.before=kill":     "", // two passages: fine
		"call.before=error@2+;call.before=kill@3": "armed twice",
	} {
		p := start(t, "careful", points)
		_ = p.cmd.Wait()
		if says == "" {
			require.Equal(t, -1, p.cmd.ProcessState.ExitCode(), points)
			continue
		}
		require.Equal(t, 2, p.cmd.ProcessState.ExitCode(), points)
		require.Contains(t, p.out.String(), says, points)
		require.NoFileExists(t, p.witness)
	}
}

func TestWithoutWitness(t *testing.T) {
	program, err := passer()
	require.NoError(t, err)
	for _, witness := range []string{"", "/dev/null/here"} {
		cmd := exec.Command(program, "careful", "1")
		cmd.Env = []string{"REPLICANT_FAILPOINTS=call.before=kill", "REPLICANT_FAILPOINT_WITNESS=" + witness}
		out, err := cmd.Output()
		require.Error(t, err)
		require.Equal(t, 2, cmd.ProcessState.ExitCode())
		require.Contains(t, string(out), "REPLICANT_FAILPOINT_WITNESS")
	}
}

func TestForgottenLoadPanics(t *testing.T) {
	p := start(t, "careless", "nothing.such=kill")
	_ = p.cmd.Wait()
	require.Equal(t, 2, p.cmd.ProcessState.ExitCode())
	require.Contains(t, p.out.String(), `panic: failpoint: REPLICANT_FAILPOINTS: "nothing.such=kill"`)
}
