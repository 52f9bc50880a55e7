package pipeline

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// TestPublicationsAreDueOnAnIdleStream: nothing comes that would make the loop look at the
// publications again, and it looks all the same.
func TestPublicationsAreDueOnAnIdleStream(t *testing.T) {
	r := newRig(t, func(set *Settings) {
		set.Run = incremental.New(incremental.State{Generation: 1, Listed: true, Complete: true, Floor: 1}, incremental.Settings{}, time.Unix(1_000_000, 0))
	})
	l := &loop{
		machine: r.m, readers: &readers{}, listedAt: r.now,
		session: &session{pipeline: &Pipeline{options: Options{GuardInterval: time.Minute}}},
	}
	require.Equal(t, r.now.Add(time.Minute), l.runDeadline(time.Time{}))
	sooner := r.now.Add(time.Second)
	require.Equal(t, sooner, l.runDeadline(sooner))
	l.ended = io.EOF
	require.Zero(t, l.runDeadline(time.Time{}), "nothing is listed any more")
}
