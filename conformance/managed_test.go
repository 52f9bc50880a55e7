package conformance

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func managedShell(t *testing.T, script string) *Managed {
	m, err := NewManaged(ManagedOptions{Args: []string{"sh", "-c", script}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// printed waits until a sink has printed a word.
func printed(t *testing.T, m *Managed, word string) {
	require.Eventually(t, func() bool { return strings.Contains(m.Output(), word) }, 20*time.Second, 5*time.Millisecond)
}

func TestManagedStartsKillsAndStartsAgain(t *testing.T) {
	ctx := context.Background()
	m := managedShell(t, `echo here at $REPLICANT_SINK_LISTEN; exec sleep 60`)
	require.Empty(t, m.Ended())
	require.NoError(t, m.Start(ctx))
	require.NoError(t, m.Start(ctx))
	printed(t, m, "here at "+m.Address())
	require.NoError(t, m.Kill(ctx))
	require.Equal(t, "signal: killed", m.Ended())
	require.NoError(t, os.WriteFile(m.socket(), nil, 0o600)) // what it left
	require.NoError(t, m.Start(ctx))
	require.NoFileExists(t, m.socket())
	require.Empty(t, m.Ended())
}

func TestManagedStopWaitsOrKills(t *testing.T) {
	m := managedShell(t, `trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
	require.NoError(t, m.Start(context.Background()))
	printed(t, m, "ready")
	require.NoError(t, m.Stop(context.Background()))
	require.Equal(t, "exit status 0", m.Ended())

	deaf := managedShell(t, `trap '' TERM; echo ready; while :; do sleep 0.01; done`)
	require.NoError(t, deaf.Start(context.Background()))
	printed(t, deaf, "ready")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, deaf.Stop(ctx), "did not end after SIGTERM")
	require.Equal(t, "signal: killed", deaf.Ended())
}

func TestWhatASinkLeavesBehindIsKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems do not show environments")
	}
	m := managedShell(t, `setsid sleep 61 & sleep 62 & echo ready; exec sleep 63`)
	require.NoError(t, m.Start(context.Background()))
	printed(t, m, "ready")
	mark := ListenEnv + "=" + m.Address()
	require.Eventually(t, func() bool { return len(marked(mark)) == 3 }, 20*time.Second, 5*time.Millisecond)
	require.NoError(t, m.Kill(context.Background()))
	require.Empty(t, marked(mark))
}

func TestACommandThatIsNotThere(t *testing.T) {
	m, err := NewManaged(ManagedOptions{Args: []string{"no-such-command-anywhere"}})
	require.NoError(t, err)
	defer m.Close()
	require.ErrorContains(t, m.Start(context.Background()), "no-such-command-anywhere")
}

func TestOutputKeepsTheEnd(t *testing.T) {
	var o output
	for i := range 10_000 {
		fmt.Fprintf(&o, "line %d\n", i)
	}
	_, _ = o.Write(nil)
	require.LessOrEqual(t, len(o.String()), outputMax+3)
	require.True(t, strings.HasPrefix(o.String(), "..."))
	require.True(t, strings.HasSuffix(o.String(), "line 9998\nline 9999\n"))
	n, err := o.Write(bytes.Repeat([]byte("x"), 3*outputMax))
	require.NoError(t, err)
	require.Equal(t, 3*outputMax, n)
	require.Equal(t, "..."+strings.Repeat("x", outputMax), o.String())
}

func TestHooks(t *testing.T) {
	ctx := context.Background()
	log := filepath.Join(t.TempDir(), "log")
	say := func(word string) []string { return []string{"sh", "-c", "echo " + word + " >> " + log} }
	h, err := NewHooked(HookOptions{Address: "unix:/x", Start: say("start"), Kill: say("kill"), Stop: say("stop")})
	require.NoError(t, err)
	for _, do := range []func(context.Context) error{h.Start, h.Start, h.Kill, h.Kill, h.Start, h.Stop, h.Stop} {
		require.NoError(t, do(ctx))
	}
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, "start\nkill\nstart\nstop\n", string(text))

	bad, err := NewHooked(HookOptions{Address: "unix:/x", Start: []string{"sh", "-c", "echo no room; exit 3"}, Kill: say("k"), Stop: say("s")})
	require.NoError(t, err)
	require.EqualError(t, bad.Start(ctx), "the start hook: exit status 3")
	require.Equal(t, "no room\n", bad.Output())
	slow, err := NewHooked(HookOptions{Address: "unix:/x", Start: []string{"sleep", "60"}, Kill: say("k"), Stop: say("s")})
	require.NoError(t, err)
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, slow.Start(short), context.DeadlineExceeded)
	_, err = NewHooked(HookOptions{Address: "unix:/x", Start: say("start")})
	require.Error(t, err)
}

func TestOutputSinceAMark(t *testing.T) {
	var o output
	fmt.Fprint(&o, "before")
	mark := o.Printed()
	require.Empty(t, o.Since(mark))
	fmt.Fprint(&o, "meanwhile")
	require.Equal(t, "meanwhile", o.Since(mark))
	fmt.Fprint(&o, strings.Repeat("x", outputMax))
	require.Equal(t, "..."+strings.Repeat("x", outputMax), o.Since(mark))
	require.Empty(t, o.Since(o.Printed()))
}
