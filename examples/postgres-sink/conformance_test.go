package main

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/crashpoint"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/sqlprobe"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.NoLeaks()) }

// program builds the sink: what is killed is a program, as its users run it.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "postgres-sink")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// TestConformance: core and every profile that the sink advertises, killed at each of its
// calls to the kernel, and cut off from its Postgres at each piece that it sends.
func TestConformance(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	at, err := url.Parse(db.DSN)
	require.NoError(t, err)
	server := at.Query()
	proxy, err := crashpoint.Listen("127.0.0.1:0", "unix:"+server.Get("host")+"/.s.PGSQL."+server.Get("port"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })

	launcher := crashpoint.NewLauncher(conformance.PlainLauncher())
	dsn := dsnVariable + "=postgres://postgres@" + proxy.Addr() + "/" + db.Name + "?sslmode=disable"
	target, err := conformance.NewManaged(conformance.ManagedOptions{
		Args: []string{program(t)}, Env: append(os.Environ(), dsn), Launcher: launcher,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, target.Close()) })
	proxy.Watch(target)
	probe, err := sqlprobe.New(sqlprobe.Options{DSN: db.DSN, Hidden: []string{"replicant.copied", "replicant.generation"}})
	require.NoError(t, err)

	sum := conformance.Test(t, target, conformance.Options{
		Probe: probe, Crashers: []conformance.Crasher{crashpoint.NewCalls(target, launcher)}, Proxy: proxy,
		Effort: conformance.Quick, CrashPoints: 5, Seed: 5,
		Expect: strings.Fields("BATCH LARGE_TRANSACTION MESSAGE RESUME_STATE SNAPSHOT SNAPSHOT_COMPLETE SNAPSHOT_PROGRESS"),
	})
	require.True(t, sum.Conformant, fmt.Sprint(sum.Why))
	for _, r := range sum.Results {
		for _, m := range r.Crashes {
			t.Logf("%s: %q, %d points by %s", r.ID, m.Label, m.Total, m.Engine)
		}
	}
}
