package windows

import (
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

func init() { add(anyMajor, casesStandby) }

// casesStandby is the row of the standby.
var casesStandby = []window{
	{"W1", 0, "SC twice, S SIGSTOP, SIGKILL, SIGTERM", exact + " FENCE", takeovers(false)},
	{"W1", 0, "SC twice, the same, sidecar's store", again + " FENCE", takeovers(true)},
}

// How long a standby stands beside a busy owner: at first, and before each takeover. The
// matrix says an hour, which the simulation runs.
const (
	besideFirst = 20 * time.Second
	besideNext  = 6 * time.Second
	pinned      = 2 * time.Second // wal_sender_timeout
)

// duo is an owner and a standby.
type duo struct {
	*scene
	owner, standby *sidecar
	count          int
}

// takeovers lets an owner be frozen, killed and stopped, twice each; whoever is left over
// stands by for the next one.
func takeovers(lib bool) func(*scene) {
	return func(s *scene) {
		s.long(5 * limit)
		if lib {
			s.lib(1)
		}
		s.args = append(s.args, "--sender-timeout", pinned.String())
		_, owner := s.up()
		p := &duo{scene: s, owner: owner, standby: s.startSidecar("")}
		p.beside(besideFirst)
		for range 2 {
			p.frozen()
			p.beside(besideNext)
			p.ended(s.kill)
			p.beside(besideNext)
			p.ended(func(a actor) { s.stop(a.(*sidecar)) })
			p.beside(besideNext)
		}
		s.write()
		if lib {
			s.seen("again %v", s.judge(p.count, 1).Repeats)
		} else {
			s.judge(0, 0)
		}
		s.seen("%d transactions, epoch %s", s.tx, s.epoch())
	}
}

// epoch is the stream's, wherever it is kept.
func (s *scene) epoch() string {
	if s.store != nil {
		return s.ask(s.store.DSN, "SELECT epoch::text FROM "+storeTable+" WHERE stream_id = $1", s.slot)
	}
	return s.ask(s.sink.DSN, "SELECT epoch::text FROM testsink.stream WHERE stream = $1", s.slot)
}

// times is how often a sidecar has streamed, and how often it has waited as standby.
func (c *sidecar) times() (streamed, stood int) {
	said := c.said()
	return strings.Count(said, `"msg":"streaming"`), strings.Count(said, `"state":"standby"`)
}

// beside writes for so long: the owner must not notice that somebody waits.
func (p *duo) beside(how time.Duration) {
	p.Helper()
	p.until("the standby waits", func() bool { return p.standby.waits("standby") })
	p.until("the owner reads", func() bool { return p.holder() != "" })
	epoch, holder := p.epoch(), p.holder()
	streamed, _ := p.owner.times()
	for began := time.Now(); time.Since(began) < how; {
		p.write()
		time.Sleep(20 * time.Millisecond)
	}
	p.arrived()
	require.Equal(p.T, epoch, p.epoch(), "somebody has claimed")
	require.Equal(p.T, holder, p.holder(), "the owner has lost the slot")
	now, _ := p.owner.times()
	require.Equal(p.T, streamed, now, "the owner was disturbed")
	require.Empty(p.T, p.standby.halt())
}

// takesOver waits until the standby streams, under the next epoch, and makes it the owner.
func (p *duo) takesOver(epoch string) {
	p.Helper()
	streamed, _ := p.standby.times()
	p.until("the standby takes over", func() bool { now, _ := p.standby.times(); return now > streamed })
	p.until("the next epoch", func() bool { return p.epoch() != epoch })
	require.Equal(p.T, "1", p.ask(p.sink.DSN, "SELECT ($1::text::bigint - $2::text::bigint)::text", p.epoch(), epoch), "one epoch for one takeover")
	p.owner, p.standby = p.standby, p.owner
	p.count++
}

// frozen freezes the owner, and wakes it when the other one has taken over.
func (p *duo) frozen() {
	p.Helper()
	epoch := p.epoch()
	_, stood := p.owner.times()
	began := time.Now()
	require.NoError(p.T, p.owner.Signal(syscall.SIGSTOP))
	p.write()
	p.takesOver(epoch)
	took := time.Since(began)
	require.Less(p.T, took, pinned+30*time.Second, "not the timeout that we pinned")
	p.seen("took over after %v", took.Round(100*time.Millisecond))
	p.arrived()
	woken := p.standby
	require.NoError(p.T, woken.Signal(syscall.SIGCONT))
	gone := false
	p.until("the woken owner gives way", func() bool {
		_, err := woken.Wait(time.Millisecond)
		_, now := woken.times()
		gone = err == nil
		return gone || now > stood
	})
	if gone {
		p.halted(woken, core.HaltFenced)
		p.standby = p.startSidecar("") // as a supervisor does
	} else {
		p.seen("woken: standby")
	}
}

// ended ends the owner, and starts another one as standby when it is replaced.
func (p *duo) ended(end func(actor)) {
	p.Helper()
	epoch := p.epoch()
	end(p.owner)
	p.write()
	p.takesOver(epoch)
	p.arrived()
	p.standby = p.startSidecar("")
}
