package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestAgainTellsAllThatTheRunWasTold: a failure must come again by the printed line alone.
func TestAgainTellsAllThatTheRunWasTold(t *testing.T) {
	cmd := &cobra.Command{Use: "x", Run: func(*cobra.Command, []string) {}}
	f := &conformanceFlags{}
	f.add(cmd, true)
	require.NoError(t, cmd.ParseFlags([]string{
		"--probe", "./read {data}/it's.db", "--env", "A={data}/x.db", "--env", "DB_PASSWORD=hunter2", "--dsn", "postgres://u:hunter2@h/d",
		"--hidden", "a,b", "--crash-points", "all", "--effort", "quick", "--show-values", "--token-file", "/etc/token",
		"--run", "ATM-*", "--seed", "7", "--report", "html=x.html", "-o", "tap", "-v",
	}))
	head, tail := f.again([]string{"python3", "sink.py"})
	require.Equal(t, "replicant-sidecar conformance", head)
	require.Equal(t, `--env 'A={data}/x.db' --env DB_PASSWORD='(not shown)' --probe './read {data}/it'\''s.db' --dsn '(not shown)'`+
		` --hidden a --hidden b --crash-points all --effort quick --show-values --token-file /etc/token -- python3 sink.py`, tail)
}
