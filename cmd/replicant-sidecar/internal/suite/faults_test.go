package suite

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// opened is a suite over this binary, playing a sink.
func opened(t *testing.T, as, engine string) *Suite { return slow(t, as, engine, time.Second) }

// slow is one that takes so long to start, if it is one that listens late.
func slow(t *testing.T, as, engine string, late time.Duration) *Suite {
	s, err := Open(context.Background(), Settings{
		Command: []string{os.Args[0]}, Env: []string{playEnv + "=" + as, lateEnv + "=" + late.String()}, Engine: engine,
	})
	require.NoError(t, err)
	return s
}

// left counts the processes that were told the suite's address.
func left(t *testing.T, address string) (n int) {
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, path := range entries {
		if env, err := os.ReadFile(path); err == nil && bytes.Contains(env, []byte(conformance.ListenEnv+"="+address+"\x00")) {
			n++
		}
	}
	return n
}

// listens waits until a sink that will listen does: this machine may be slow.
func listens(t *testing.T, will bool, address string) {
	path := strings.TrimPrefix(address, "unix:")
	require.Eventually(t, func() bool { _, err := os.Stat(path); return err == nil || !will }, time.Minute, 10*time.Millisecond)
}

// diagnosed is for sinks that are still there.
func diagnosed(as, address string) string {
	if as == "exits at once" || as == "goes into the background" {
		return ""
	}
	return Diagnose(address)
}

// TestASinkThatMisbehavesIsNamed: the run ends in time, says what is wrong, and leaves no
// process, socket or directory behind; watched by the crash engine and without it.
func TestASinkThatMisbehavesIsNamed(t *testing.T) {
	for as, want := range map[string]string{
		"exits at once":            "the sink ended: exit status 7",
		"hangs":                    "no answer within 2s",
		"never listens":            "no answer within 2s",
		"answers garbage":          "no answer within 2s",
		"floods":                   "GetCapabilities answers Unimplemented",
		"forks":                    "GetCapabilities answers Unimplemented",
		"goes into the background": "the sink ended: exit status 0",
		"listens late":             "GetCapabilities answers Unimplemented", // which it was waited for
		"writes without end":       "GetCapabilities answers Unimplemented",
	} {
		for _, engine := range []string{"auto", "timed"} {
			t.Run(as+"/"+engine, func(t *testing.T) {
				t.Parallel()
				s := opened(t, as, engine)
				address, data := s.Target.Address(), s.data
				began := time.Now()
				patience := time.Minute
				if strings.HasPrefix(want, "no answer") {
					patience = 2 * time.Second
					require.NoError(t, s.Target.Start(context.Background()))
					listens(t, as != "never listens", address)
				}
				_, err := conformance.Run(context.Background(), conformance.Options{Target: s.Target, Patience: patience})
				require.ErrorContains(t, err, want)
				require.Equal(t, map[string]string{
					"hangs":           "something listens there, takes connections and says nothing",
					"never listens":   "nothing listens there",
					"answers garbage": "what listens there does not speak HTTP/2, so it is no gRPC server without TLS",
				}[as], diagnosed(as, address))
				require.Less(t, time.Since(began), time.Minute)
				require.Less(t, len(s.Target.Output()), 20<<10)
				if as == "exits at once" {
					require.ErrorContains(t, err, "no database here")
				}
				require.NoError(t, s.Close())
				require.Zero(t, left(t, address))
				require.NoFileExists(t, strings.TrimPrefix(address, "unix:"))
				require.NoDirExists(t, data)
			})
		}
	}
}

// TestTheLimitOfAStartIsThePatience: a sink that needs longer is given up, and named; the
// same one passes where the limit is above.
func TestTheLimitOfAStartIsThePatience(t *testing.T) {
	for _, c := range []struct {
		late, patience time.Duration
		want           string
	}{
		{time.Hour, 300 * time.Millisecond, "no answer within 300ms"},
		{500 * time.Millisecond, time.Minute, "GetCapabilities answers Unimplemented"},
	} {
		s := slow(t, "listens late", "auto", c.late)
		_, err := conformance.Run(context.Background(), conformance.Options{Target: s.Target, Patience: c.patience})
		require.ErrorContains(t, err, c.want)
		require.NoError(t, s.Close())
		require.Zero(t, left(t, s.Target.Address()))
	}
}

func TestASinkThatIsDeafToSIGTERMIsKilled(t *testing.T) {
	s := opened(t, "deaf", "auto")
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.Target.Start(context.Background()))
	listens(t, true, s.Target.Address())
	socket := strings.TrimPrefix(s.Target.Address(), "unix:")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, s.Target.Stop(ctx), "did not end after SIGTERM")
	require.Zero(t, left(t, s.Target.Address()))
	// Its socket is still there, and does not hold up the next start.
	require.FileExists(t, socket)
	require.NoError(t, s.Target.Start(context.Background()))
	require.NotZero(t, left(t, s.Target.Address()))
}

func TestAnInterruptedRunEndsTheSink(t *testing.T) {
	s := opened(t, "never listens", "auto")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := conformance.Run(ctx, conformance.Options{Target: s.Target})
		ended <- err
	}()
	require.Eventually(t, func() bool { return left(t, s.Target.Address()) > 0 }, 20*time.Second, 5*time.Millisecond)
	cancel()
	require.Error(t, <-ended)
	require.NoError(t, s.Close())
	require.Zero(t, left(t, s.Target.Address()))
}
