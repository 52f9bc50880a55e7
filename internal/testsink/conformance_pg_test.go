package testsink_test

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/crashpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/process"
)

// judged is the sink as a program of its own, whose way to Postgres runs through a proxy.
func judged(t *testing.T, kind testsink.Kind) conformance.Options {
	t.Helper()
	db := pgtest.Shared(t, 17).Database(t)
	at, err := url.Parse(db.DSN)
	require.NoError(t, err)
	q := at.Query()
	proxy, err := crashpoint.Listen("127.0.0.1:0", "unix:"+q.Get("host")+"/.s.PGSQL."+q.Get("port"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	launcher := crashpoint.NewLauncher(conformance.PlainLauncher())
	target, err := conformance.NewManaged(conformance.ManagedOptions{
		Args: []string{process.Program()}, Launcher: launcher,
		Env: append(os.Environ(), testsink.EnvKind+"="+string(kind),
			testsink.EnvDSN+"=postgres://postgres@"+proxy.Addr()+"/"+db.Name+"?sslmode=disable"),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, target.Close()) })
	proxy.Watch(target)
	return conformance.Options{
		Target: target, Probe: newLogProbe(t, db.DSN), Seed: 7, Effort: conformance.Quick,
		Crashers: []conformance.Crasher{crashpoint.NewCalls(target, launcher)}, Proxy: proxy,
	}
}

// passes requires that the sink is conformant, and prints its crash points.
func passes(t *testing.T, o conformance.Options) *conformance.Summary {
	t.Helper()
	sum := conformance.Test(t, o.Target, o)
	for _, r := range sum.Results {
		for _, m := range r.Crashes {
			sides := map[conformance.CrashSide]int{}
			for _, p := range m.Points {
				sides[p.Side]++
			}
			t.Logf("%s %s, %q: %d points, visited %v", r.ID, m.Engine, m.Label, m.Total, sides)
		}
	}
	return sum
}

// TestConformanceOfTheMirror: the whole suite against a mirror in a real Postgres, core and
// every profile that it advertises, with each connection to the store cut at each point.
func TestConformanceOfTheMirror(t *testing.T) {
	t.Parallel()
	o := judged(t, testsink.KindMirror)
	o.CrashPoints = -1
	o.Expect = strings.Fields("CHECKPOINT TRANSACTION BATCH LARGE_TRANSACTION MESSAGE SCHEMA_CHANGE SNAPSHOT SNAPSHOT_COMPLETE SNAPSHOT_PROGRESS RESUME_STATE")
	sum := passes(t, o)
	require.True(t, sum.Conformant, fmt.Sprint(sum.Why))
}

// TestConformanceOfTheLog is the same of an append log.
func TestConformanceOfTheLog(t *testing.T) {
	t.Parallel()
	o := judged(t, testsink.KindLog)
	o.CrashPoints = -1
	sum := passes(t, o)
	require.True(t, sum.Conformant, fmt.Sprint(sum.Why))
}
