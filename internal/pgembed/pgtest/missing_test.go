package pgtest_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// envInner lets a test of this file run in a process of its own.
const envInner = "PGTEST_TEST_INNER"

// TestInner is what the missing major is tried on.
func TestInner(t *testing.T) {
	if os.Getenv(envInner) == "" {
		t.Skip("runs in the process that TestMissingMajor starts")
	}
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) { t.Log("ran on", pg.Major) })
}

// inner runs TestInner where the only Postgres is an npm tree without it. The
// working directory is outside of the checkout.
func inner(t *testing.T, ci string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestInner$", "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{
		envInner + "=1", "CI=" + ci, "HOME=" + dir, "REPLICANT_PG_ROOT=" + dir,
		pgtest.EnvMajors + "=" + missingMajor(t), "PATH=/bin:/usr/bin",
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// missingMajor is one that the system does not have.
func missingMajor(t *testing.T) string {
	t.Helper()
	for _, major := range []string{"14", "16", "17", "18"} {
		if _, err := os.Stat("/usr/lib/postgresql/" + major); err != nil {
			return major
		}
	}
	t.Skip("this system has every major")
	return ""
}

// A major that is not there is printed and skipped at home and fails in CI.
func TestMissingMajor(t *testing.T) {
	for _, ci := range []string{"", "false"} {
		out, err := inner(t, ci)
		require.NoError(t, err, out)
		require.Contains(t, out, "is MISSING, its tests are skipped")
		require.Contains(t, out, "--- SKIP: TestInner/pg")
		require.NotContains(t, out, "ran on")
	}
	for _, ci := range []string{"true", "1"} {
		out, err := inner(t, ci)
		require.Error(t, err, out)
		require.Contains(t, out, "--- FAIL: TestInner/pg")
		require.Contains(t, out, "was not found")
	}
}

func TestMajors(t *testing.T) {
	t.Setenv(pgtest.EnvMajors, "")
	all, err := pgtest.Majors()
	require.NoError(t, err)
	require.Equal(t, []int{14, 15, 16, 17, 18}, all)
	t.Setenv(pgtest.EnvMajors, "15, 17")
	some, err := pgtest.Majors()
	require.NoError(t, err)
	require.Equal(t, []int{15, 17}, some)
	for _, wrong := range []string{"13", "x", "15,", "19"} {
		t.Setenv(pgtest.EnvMajors, wrong)
		_, err = pgtest.Majors()
		require.ErrorContains(t, err, pgtest.EnvMajors, wrong)
	}
}
