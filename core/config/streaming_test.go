package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStreaming(t *testing.T) {
	read := func(text string) (*Loaded, error) {
		path := filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return Load(Sources{Path: path})
	}
	for text, want := range map[string]string{"": "off", "streaming: on": "on", "streaming: off": "off", `streaming: "on"`: "on"} {
		c, err := read(text)
		require.NoError(t, err, text)
		require.Equal(t, want, c.Streaming, text)
		require.Equal(t, Size(1<<30), c.Spill.Max)
	}
	c, err := read("streaming: on\nspill:\n  dir: /var/spill\n  max: 2GiB\n")
	require.NoError(t, err)
	require.Equal(t, Spill{Dir: "/var/spill", Max: 2 << 30}, c.Spill)
	for _, text := range []string{"streaming: true", "streaming: parallel", "spill:\n  max: 0B", "spill:\n  max: 5", "spill:\n  size: 1GiB", "spill: 1GiB"} {
		_, err := read(text)
		require.Len(t, Faults(err), 1, text)
	}
}
