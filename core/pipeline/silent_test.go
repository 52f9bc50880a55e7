package pipeline_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// A server that reads old WAL is silent for long. The status says how much there is to
// come, and the silence ends nothing.
func TestS20SilentServerIsBehind(t *testing.T) {
	inBubble(t, func(p *play) {
		const end = base + 1<<30
		p.server.Change(func(s *waltest.State) { s.WALEnd = end.String() })
		p.begin()
		stream := p.stream(base)
		for range 60 {
			p.pass(time.Minute)
			status := p.run.Status()
			require.Equal(p, pipeline.StateCatchingUp, status.State)
			require.EqualValues(p, end-base, status.LagBytes)
			require.EqualValues(p, 1, status.Sessions)
		}
		require.NoError(p, stream.Keepalive(uint64(end), false))
		p.pass(time.Minute)
		require.Equal(p, pipeline.StateStreaming, p.run.Status().State)
		require.Equal(p, end, p.sink.Stored().Position)
	})
}

// While nothing is heard on the stream, the server is asked whether it still sees us.
func TestReaderThatTheServerDoesNotSee(t *testing.T) {
	inBubble(t, func(p *play) {
		active := func(on bool, holder string) {
			p.server.Change(func(s *waltest.State) {
				s.Slot = slotAt(base)
				s.Slot.Active, s.Slot.ActivePID = on, holder
			})
		}
		active(true, "4711") // the scripted server's only process
		p.begin()
		p.stream(base)
		p.pass(time.Hour)
		require.EqualValues(p, 1, p.run.Status().Sessions)
		active(false, "")
		p.stream(base)
		require.Contains(p, p.run.Status().LastError, "no longer sees")
		active(true, "4711")
		p.run.cancel()
		require.ErrorIs(p, p.run.wait(p.T), pipeline.ErrAbort)
		p.begin()
		p.stream(base)
		active(true, "4712")
		p.pass(15 * time.Second)
		require.Equal(p, pipeline.StateStandby, p.run.Status().State)
		active(true, "4711")
		p.stream(base)
	})
}

// Before 16 nothing can be read from a standby: refused at a first start, waited out where
// the name led to a primary before.
func TestC07StandbyForAWhile(t *testing.T) {
	recovery := func(p *play, on string) {
		p.server.Change(func(s *waltest.State) {
			s.Version = "15.2"
			s.Reply = func(query string) ([][]string, bool) {
				if on != "" && len(query) > 60 && query[:60] == serverQuestion[:60] {
					return [][]string{{"150002", on, "logical", "10000"}}, true
				}
				return nil, false
			}
		})
	}
	inBubble(t, func(p *play) {
		recovery(p, "t")
		p.begin()
		halt, ok := core.AsHalt(p.run.wait(p.T))
		require.True(p, ok)
		require.Equal(p, core.HaltServerUnsupported, halt.Code)
	})
	inBubble(t, func(p *play) {
		recovery(p, "f")
		p.begin()
		stream := p.stream(base)
		p.pass(time.Second)
		recovery(p, "t")
		stream.Cut()
		p.pass(time.Minute)
		require.Equal(p, pipeline.StateSourceAway, p.run.Status().State)
		require.Contains(p, p.run.Status().Reason, "standby")
		recovery(p, "f")
		p.stream(base)
	})
}

// serverQuestion is how the catalog asks for version and settings.
const serverQuestion = "SELECT pg_catalog.current_setting('server_version_num'), pg_catalog.pg_is_in_recovery()"
