package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// A stop in good order and one that leaves a unit in doubt end with two codes, and the log
// says what is open.
func TestEndOfADrain(t *testing.T) {
	var log bytes.Buffer
	s := &sidecar{log: slog.New(slog.NewJSONHandler(&log, nil))}
	require.Equal(t, core.ExitDrained, report(&log, s.ended(nil)))
	require.Contains(t, log.String(), `"msg":"stopped","exit_code":0`)
	log.Reset()
	require.Equal(t, core.ExitInternal, report(&log, s.ended(fmt.Errorf("%w: the unit to 0/1234", pipeline.ErrLeftOpen))))
	require.Contains(t, log.String(), "the next start resolves it")
	require.Contains(t, log.String(), "the unit to 0/1234")
	require.Contains(t, log.String(), `"exit_code":1`)
	log.Reset()
	require.Equal(t, core.ExitInternal, report(&log, s.ended(errors.Join(pipeline.ErrCopyInterrupted, pipeline.ErrAbort))))
	require.Contains(t, log.String(), "--snapshot-redo")
	require.NotContains(t, log.String(), "goes on from the checkpoint")
}
