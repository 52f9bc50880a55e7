package suite

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

func TestSettingsThatContradict(t *testing.T) {
	for want, s := range map[string]Settings{
		"no sink":                   {},
		"not both":                  {Command: []string{"x"}, Address: "y"},
		"named by --sink":           {Command: []string{"x"}, Kill: "k"},
		"belong together":           {Address: "y", Start: "s", Kill: "k"},
		"one probe is enough":       {Address: "y", DSN: "sqlite:x", ProbeAddress: "z"},
		"auto, calls or timed":      {Address: "y", Engine: "gdb"},
		"LISTEN=UPSTREAM":           {Address: "y", Proxy: "5432"},
		"--store-proxy: listen tcp": {Address: "y", Proxy: "256.1.1.1:1=z:1"},
	} {
		_, err := Open(context.Background(), s)
		require.ErrorContains(t, err, want)
	}
}

func TestAFileBesideTheSink(t *testing.T) {
	home := t.TempDir()
	t.Chdir(t.TempDir())
	script := filepath.Join(home, "build", "release", "sink.js")
	require.NoError(t, os.MkdirAll(filepath.Dir(script), 0o755))
	require.NoError(t, os.WriteFile(script, nil, 0o644))
	require.Empty(t, Find([]string{"node", script}))

	path := filepath.Join(home, FileName)
	require.NoError(t, os.WriteFile(path, []byte(`
env:
  STORE: "{data}/store.db"
probe: ["{here}/read", "{data}/store.db"]
expect: [BATCH]
`), 0o644))
	require.Equal(t, path, Find([]string{"node", script}))

	other := filepath.Join(t.TempDir(), "other.js")
	require.NoError(t, os.WriteFile(other, nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(other), FileName), nil, 0o644))
	require.Equal(t, filepath.Join(filepath.Dir(other), FileName), Find([]string{script, other}), "an interpreter has no settings")
	require.Equal(t, path, Find([]string{script}))
	f, err := ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, []string{"BATCH"}, f.Expect)
	s := Settings{Command: []string{"node", script}, Env: []string{"STORE=mine"}}
	f.Under(&s)
	s.fill("/data")
	require.Equal(t, []string{"STORE=/data/store.db", "STORE=mine"}, s.Env)
	require.Equal(t, []string{home + "/read", "/data/store.db"}, s.Probe)

	own := Settings{DSN: "sqlite:x"}
	f.Under(&own)
	require.Empty(t, own.Probe)

	require.NoError(t, os.WriteFile(path, []byte("probs: [x]"), 0o644))
	_, err = ReadFile(path)
	require.ErrorContains(t, err, "probs")
	_, err = ReadFile(filepath.Join(home, "absent.yaml"))
	require.ErrorContains(t, err, "does not exist")
}

func TestKnownFailures(t *testing.T) {
	list, err := ReadKnown(strings.NewReader(`
# announced
IDM-001 until=2026-12-31  the store cannot   # yet
val-003 numbers are doubles
`))
	require.NoError(t, err)
	require.Equal(t, []conformance.KnownFailure{
		{ID: "IDM-001", Reason: "the store cannot", Expires: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
		{ID: "val-003", Reason: "numbers are doubles"},
	}, list)
	for text, want := range map[string]string{
		"IDM-001":              "no reason",
		"IDM-001 until=soon x": "a day is written",
		"IDM-999 x":            `no case "IDM-999"`,
	} {
		_, err := ReadKnown(strings.NewReader(text))
		require.ErrorContains(t, err, want)
	}
	skip, err := ParseSkip("ATM-*=no room")
	require.NoError(t, err)
	require.Equal(t, conformance.UserSkip{Pattern: "ATM-*", Reason: "no room"}, skip)
	_, err = ParseSkip("ATM-*")
	require.Error(t, err)
}
