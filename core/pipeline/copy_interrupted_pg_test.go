package pipeline_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
)

// TestInterruptedInitialCopySaysSo: a stop in the middle of an initial copy is no drain in good
// order. The next start halts, and one that may begin anew drains as ever at its end.
func TestInterruptedInitialCopySaysSo(t *testing.T) {
	for name, stop := range map[string]func(*running){"drain": func(r *running) { r.Drain() }, "abort": func(r *running) { r.cancel() }} {
		t.Run(name, func(t *testing.T) {
			db := filled(t, 17)
			sink := sinktest.NewMemory()
			sink.Caps.Limits = smallUnits
			reached, gate := make(chan struct{}), make(chan struct{})
			units := 0
			sink.BeforeSnapshot = func(*core.SnapshotUnit) error {
				if units++; units == 2 {
					close(reached)
					<-gate
				}
				return nil
			}
			o := initial(db, sink)
			r := start(t, o)
			<-reached
			stop(r)
			time.AfterFunc(10*time.Millisecond, func() { close(gate) })
			err := r.wait(t)
			require.ErrorIs(t, err, pipeline.ErrCopyInterrupted)
			require.Equal(t, name == "abort", errors.Is(err, pipeline.ErrAbort))

			halted(t, start(t, o), core.HaltSnapshotIncomplete)
			o.SnapshotRedo = true
			again := start(t, o)
			again.streaming(t)
			again.Drain()
			require.NoError(t, again.wait(t))
		})
	}
}
