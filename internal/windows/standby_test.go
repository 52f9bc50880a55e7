package windows

import (
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
)

func init() { add(anyMajor, casesStandby) }

// casesStandby is the row of the standby.
var casesStandby = []window{
	{"W1", 0, "SC twice, S SIGSTOP", exact + " FENCE", standbyBesideOwner},
}

// besideFor is how long the standby stands beside a busy owner. The matrix says an hour,
// which the simulation runs.
const besideFor = 20 * time.Second

func standbyBesideOwner(s *scene) {
	const timeout = 2 * time.Second
	s.long(2 * limit)
	s.args = append(s.args, "--sender-timeout", timeout.String())
	_, owner := s.up()
	standby := s.startSidecar("")
	s.until("the standby waits", func() bool { return standby.waits("standby") })
	epoch := s.ask(s.sink.DSN, "SELECT epoch::text FROM testsink.stream WHERE stream = $1", s.slot)
	holder := s.holder()
	for began := time.Now(); time.Since(began) < besideFor; {
		s.write()
		time.Sleep(20 * time.Millisecond)
	}
	s.arrived()
	require.Equal(s.T, epoch, s.ask(s.sink.DSN, "SELECT epoch::text FROM testsink.stream WHERE stream = $1", s.slot))
	require.Equal(s.T, holder, s.holder())
	require.Empty(s.T, standby.halt())
	require.NoError(s.T, owner.Signal(syscall.SIGSTOP))
	frozen := time.Now()
	s.write()
	s.until("the standby takes over", func() bool { return standby.streams() })
	took := time.Since(frozen)
	require.Less(s.T, took, timeout+3*time.Second, "sender timeout, and one look of the standby")
	s.seen("%d transactions beside, took over after %v", s.tx, took.Round(100*time.Millisecond))
	s.arrived()
	require.NoError(s.T, owner.Signal(syscall.SIGCONT))
	s.until("the owner gives way", func() bool {
		_, err := owner.Wait(time.Millisecond)
		return err == nil || owner.waits("standby")
	})
	s.seen("owner: %s", owner.fate())
	s.write()
	s.judge(0, 0)
	require.Empty(s.T, standby.halt())
}
