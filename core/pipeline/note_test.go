package pipeline_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/transcript"
)

// unstarted is a sink that does not answer.
type unstarted struct{ *sinktest.Memory }

func (*unstarted) Capabilities(context.Context) (core.Capabilities, error) {
	return core.Capabilities{}, &core.SinkError{Class: core.ClassAway, Call: "GetCapabilities", Code: "UNAVAILABLE"}
}

// TestSinkThatStartsIsWaitedFor: a sink that is started together with the sidecar is waited
// for without a warning, and with one when it takes long.
func TestSinkThatStartsIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log transcript.Text
		p, err := pipeline.New(pipeline.Options{
			Source: wal.Options{DSN: "postgres://u@127.0.0.1:1/d", Slot: "s", Publications: []string{"p"}},
			Sink:   &unstarted{sinktest.NewMemory()}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.NoError(t, err)
		over := make(chan error)
		go func() { over <- p.Run(t.Context()) }()
		told := func(after time.Duration) (info, warn int) {
			time.Sleep(after)
			synctest.Wait()
			return strings.Count(log.String(), "level=INFO msg=\"waiting for the sink\""), strings.Count(log.String(), "level=WARN")
		}
		info, warn := told(4 * time.Second)
		require.Equal(t, []int{1, 0}, []int{info, warn})
		require.Equal(t, pipeline.StateSinkUnavailable, p.Status().State)
		info, warn = told(time.Minute)
		require.Equal(t, []int{1, 1}, []int{info, warn})
		p.Drain()
		require.NoError(t, <-over)
	})
}
