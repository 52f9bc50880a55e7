package main

import (
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/config"
)

func TestSpillOptions(t *testing.T) {
	c := config.Config{Streaming: "off"}
	require.False(t, engineOptions(&c, slog.Default()).Source.Streaming)
	c.Streaming, c.Spill.Max = "on", 5
	o := engineOptions(&c, slog.Default())
	require.True(t, o.Source.Streaming)
	require.Equal(t, fmt.Sprintf("%s/replicant-spill-%d", os.TempDir(), os.Getuid()), o.Spill.Dir)
	require.EqualValues(t, 5, o.Spill.Max)
	c.Spill.Dir = "/var/spill"
	require.Equal(t, "/var/spill", engineOptions(&c, slog.Default()).Spill.Dir)
}
