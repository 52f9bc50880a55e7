package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
)

// A standby delivers nothing, yet its questions are answered: refusals long apart are two.
func TestAnsweredQuestionsForgetRefusedCredentials(t *testing.T) {
	ctx := context.Background()
	ask := map[string]func(*session) error{
		"GetCapabilities": func(s *session) error { return s.greetSink(ctx) },
		"Checkpoint": func(s *session) error {
			_, err := (&sinkOwner{pipeline: s.pipeline}).read(ctx, core.SourceIdentity{})
			return err
		},
	}
	for name, row := range map[string]struct {
		refused, answered string
		forgotten         bool
	}{
		"the refused question itself":         {"GetCapabilities", "GetCapabilities", true},
		"the checkpoint itself":               {"Checkpoint", "Checkpoint", true},
		"a question behind it":                {"GetCapabilities", "Checkpoint", true},
		"a unit, and who was overtaken since": {"HandleBatch", "GetCapabilities", true},
		"a greeting that is open to all":      {"Checkpoint", "GetCapabilities", false},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := still(t, sinktest.NewMemory())
			p.options.GoForwardOnly = true
			refusal := &core.SinkError{Class: core.ClassUnauthorized, Call: row.refused}
			start := time.Now()
			require.NoError(t, p.doubt.unauthorized(start, refusal))
			require.NoError(t, ask[row.answered](&session{pipeline: p, ctx: ctx}))
			err := p.doubt.unauthorized(start.Add(unauthorizedMax+time.Second), refusal)
			if row.forgotten {
				require.NoError(t, err)
				start = start.Add(unauthorizedMax + time.Second)
				err = p.doubt.unauthorized(start.Add(unauthorizedMax), refusal)
			}
			require.Equal(t, core.HaltSinkUnauthorized, haltCode(t, err))
		})
	}
}

// The lock is given back after a stop too, and a server that hangs does not keep us.
func TestUnlockIsBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	asked := false
	unlock(ctx, func(ctx context.Context) error {
		asked = true
		require.NoError(t, ctx.Err())
		deadline, ok := ctx.Deadline()
		require.True(t, ok)
		require.LessOrEqual(t, time.Until(deadline), askTimeout)
		return nil
	})
	require.True(t, asked)
}
