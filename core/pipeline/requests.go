package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// RefusedError says why a request about a copy was not carried out; nothing has changed.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return e.Text }

// ErrUnanswered is returned where a session ended, or the caller's time, with a request under
// way. Whether it holds is shown by the status.
var ErrUnanswered = errors.New("no answer in time: whether it was carried out is shown by the status")

// request is one thing that is asked of the run. It is carried out once, by the loop, and
// answered when it is durable.
type request struct {
	ctx    context.Context
	do     func(*incremental.Run) error
	step   *incremental.Step // that makes it durable
	result chan error        // room for one
	over   chan struct{}     // closed by the loop with its answer
}

func (r *request) answer(err error) {
	select {
	case r.result <- err:
	default: // it was answered by the end of the session
	}
}

// RequestCopy copies tables of the publications once more, beside the stream. With replace
// the sink empties each first; without, it removes at the end what neither the copy nor the
// stream has touched. It returns when that is durably begun, with the tables as they are
// called in SQL. The error is a *RefusedError or ErrUnanswered.
func (p *Pipeline) RequestCopy(ctx context.Context, tables []string, replace bool) ([]string, error) {
	var next [16]byte
	_, _ = rand.Read(next[:]) // documented never to fail
	var names []string
	err := p.request(ctx, func(run *incremental.Run) error {
		members, err := run.Again(tables, replace, next)
		names = namesOf(members)
		return err
	})
	if err != nil {
		return nil, err
	}
	p.log.Info("copy requested", "tables", strings.Join(names, ", "), "replace", replace)
	return names, nil
}

// CancelCopy ends the copy of tables: what was copied stays. It returns when that is durable.
// The errors are those of RequestCopy.
func (p *Pipeline) CancelCopy(ctx context.Context, tables []string) ([]string, error) {
	var names []string
	err := p.request(ctx, func(run *incremental.Run) error {
		members, err := run.Cancel(tables)
		names = namesOf(members)
		return err
	})
	if err != nil {
		return nil, err
	}
	p.log.Warn("copy cancelled: the sink has a part of the rows", "tables", strings.Join(names, ", "))
	return names, nil
}

// PauseCopy begins no read until ResumeCopy, over restarts too. A table, where one is named,
// must be the only one that is being copied. The errors are those of RequestCopy.
func (p *Pipeline) PauseCopy(ctx context.Context, table string) error {
	err := p.request(ctx, func(run *incremental.Run) error { return run.Pause(table) })
	if err == nil {
		p.log.Info("copy paused")
	}
	return err
}

// ResumeCopy goes on after PauseCopy, with the same arguments and errors.
func (p *Pipeline) ResumeCopy(ctx context.Context, table string) error {
	err := p.request(ctx, func(run *incremental.Run) error { return run.Resume(table) })
	if err == nil {
		p.log.Info("copy resumed")
	}
	return err
}

func namesOf(members []incremental.Member) []string {
	var names []string
	for _, m := range members {
		names = append(names, m.Quoted())
	}
	return names
}

func (p *Pipeline) request(ctx context.Context, do func(*incremental.Run) error) error {
	if err := p.takesRequests(); err != nil {
		return err
	}
	r := &request{ctx: ctx, do: do, result: make(chan error, 1), over: make(chan struct{})}
	select {
	case p.requests <- r:
	case <-ctx.Done():
		st := p.Status()
		return &RefusedError{fmt.Sprintf("there is no stream to copy beside: %s %s", st.State, st.Reason)}
	}
	select {
	case err := <-r.result:
		var refused *incremental.RefusedError
		if errors.As(err, &refused) {
			return &RefusedError{refused.Text}
		}
		return err
	case <-ctx.Done():
		return ErrUnanswered
	}
}

// takesRequests refuses at once what no session would take.
func (p *Pipeline) takesRequests() error {
	switch st := p.Status(); {
	case p.options.Snapshot != checkpoint.SnapshotIncremental:
		return &RefusedError{"tables are copied on request with `snapshot: incremental` alone: start the sidecar with it; the position stays as it is"}
	case st.State == StateStandby, st.State == StateHalted, st.State == StateStopped, st.State == StateDraining:
		return &RefusedError{fmt.Sprintf("this sidecar does not stream: %s %s", st.State, st.Reason)}
	}
	return nil
}

// forward brings requests to the loop, one at a time.
func (r *readers) forward(ctx context.Context) {
	for {
		var asked *request
		select {
		case asked = <-r.requests:
		case <-ctx.Done():
			return
		}
		select {
		case r.out <- foundJob{request: asked}:
		case <-ctx.Done():
			asked.answer(ErrUnanswered)
			return
		}
		select {
		case <-asked.over:
		case <-ctx.Done():
			asked.answer(ErrUnanswered)
			return
		}
	}
}

// carryOut does what was asked for, as soon as that can be.
func (l *loop) carryOut() {
	r := l.readers
	if r == nil || r.asked == nil || r.asked.step != nil {
		return
	}
	if r.asked.ctx.Err() != nil {
		l.answerRequest(ErrUnanswered) // nobody waits for it any more
		return
	}
	step, done, err := l.machine.Order(r.asked.do)
	switch {
	case err != nil:
		l.answerRequest(err)
	case done:
		r.asked.step = step
	}
}

func (l *loop) answerRequest(err error) {
	l.readers.asked.answer(err)
	close(l.readers.asked.over)
	l.readers.asked = nil
}

// stored answers a request whose token is durable.
func (l *loop) stored(step *incremental.Step) {
	if l.asked(step) {
		l.answerRequest(nil)
	}
	l.carryOut()
}

// asked reports that a step makes what was asked for durable.
func (l *loop) asked(step *incremental.Step) bool {
	r := l.readers
	return r != nil && r.asked != nil && step != nil && r.asked.step == step
}
