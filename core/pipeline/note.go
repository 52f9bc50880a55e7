package pipeline

import (
	"errors"
	"time"
)

// sinkStarts is how long a sink may take that is started together with the sidecar. Until
// then it is no fault that it does not answer.
const sinkStarts = 5 * time.Second

// note shows why a session ended, and logs it once a change of state.
func (p *Pipeline) note(next *again) {
	before := p.Status()
	p.board.update(func(s *Status) { s.State, s.Reason, s.LastError = next.state, next.Error(), next.Error() })
	switch {
	case errors.Is(next, errForgets):
		p.log.Info("the stream begins anew", "reason", next.Error())
	case next.state == StateSinkUnavailable && !p.greeted && time.Since(p.began) < sinkStarts:
		if !p.early {
			p.early = true
			p.log.Info("waiting for the sink")
		}
	case p.early && !p.greeted, before.State != next.state, before.Reason != next.Error():
		p.early = false
		p.log.Warn("waiting", "state", string(next.state), "reason", next.Error())
	}
}
