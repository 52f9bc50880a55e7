package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/chunks"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// readers are the goroutines that read for an incremental snapshot, each with a connection
// of its own. The loop gives a job only to one that is free.
type readers struct {
	all  []*chunks.Reader
	jobs chan readJob  // room for every reader
	out  chan foundJob // room for every reader
	// requests are from outside.
	requests <-chan *request
	// The loop's own: readers that work, the copy of a table without a key that one of them
	// makes, and what was asked for and is not durable.
	busy    int
	copy    readJob
	asked   *request
	running bool   // the end of the run is to be told
	held    string // the table whose copy the stream waits for, as it was shown
	putOffs uint64 // copies that were put off, as was told
}

// readJob is a job on its way to a reader; next and stop are of a copy in pieces.
type readJob struct {
	incremental.Job
	next chan struct{} // the next piece may be fetched; room for one
	stop chan struct{} // closed when the copy is not wanted any more
}

type foundJob struct {
	job    incremental.Job
	result chunks.Result
	err    error
	piece  bool // the job goes on
	// request, where it is not nil, is all that there is.
	request *request
}

func (s *session) newReaders(run *incremental.Run) *readers {
	if run == nil {
		return nil
	}
	p := s.pipeline
	p.copyXmin.Store(0)
	r := &readers{requests: p.requests, running: run.Active()}
	var standby *chunks.Standby
	if s.recovery {
		standby = &chunks.Standby{Slot: s.source.Slot, PID: s.holder}
	}
	for range p.options.Copy.Connections {
		r.all = append(r.all, chunks.New(chunks.Options{
			Source:       snapshot.Source{Open: wal.PlainOpener(p.options.Source), Classify: wal.ClassifyPlain},
			Publications: p.options.Source.Publications, SystemIdentifier: s.source.SystemIdentifier, Timeline: s.source.Timeline, Standby: standby,
			Describe: func(ctx context.Context, r *core.Relation) {
				ask, cancel := context.WithTimeout(ctx, describeTimeout)
				defer cancel()
				_ = s.catalog.Describe(ask, r) // what could not be learned stays unset
			},
		}))
	}
	r.jobs, r.out = make(chan readJob, len(r.all)), make(chan foundJob, len(r.all))
	return r
}

// count is how many goroutines there are: one a reader, and one that brings requests.
func (r *readers) count() int {
	if r == nil {
		return 0
	}
	return len(r.all) + 1
}

// results is nil, which never gives anything, where there are no readers.
func (r *readers) results() <-chan foundJob {
	if r == nil {
		return nil
	}
	return r.out
}

// work ends when ctx is done.
func (r *readers) work(ctx context.Context, i int) {
	if i == len(r.all) {
		r.forward(ctx)
		return
	}
	reader := r.all[i]
	defer reader.Close()
	pace := newPace()
	for {
		var job readJob
		select {
		case job = <-r.jobs:
		case <-ctx.Done():
			return
		}
		result, err := reader.Do(ctx, job.Job, func(ctx context.Context, result chunks.Result) error { return r.hand(ctx, job, result) })
		if err != nil && !errors.Is(err, chunks.ErrAgain) {
			sleep(ctx, pace.NextBackOff()) // the server is away, or something is wrong
		} else {
			pace.Reset()
		}
		select {
		case r.out <- foundJob{job: job.Job, result: result, err: err}:
		case <-ctx.Done():
			return
		}
	}
}

// hand gives on a piece of a copy and waits until the next one is wanted.
func (r *readers) hand(ctx context.Context, job readJob, result chunks.Result) error {
	select {
	case r.out <- foundJob{job: job.Job, result: result, piece: true}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-job.next:
		return nil
	case <-job.stop:
		return chunks.ErrAgain
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read gives free readers what there is to read.
func (l *loop) read() {
	if l.readers == nil || l.ended != nil {
		return
	}
	behind := max(l.walEnd, core.LSN(l.session.pipeline.heard.Load()))
	l.machine.Behind(behind > l.machine.Received()+catchingUpBytes)
	if now := time.Now(); now.Sub(l.listedAt) >= l.session.pipeline.options.GuardInterval {
		l.listedAt = now
		l.machine.set.Run.Relist()
	}
	if at := &l.readers.copy; at.stop != nil && !l.machine.set.Run.Copies(at.ID) {
		close(at.stop)
		*at = readJob{}
	}
	for l.readers.busy < len(l.readers.all) {
		job, ok := l.machine.Job()
		if !ok {
			break
		}
		next := readJob{Job: job}
		if job.Kind == incremental.JobCopy {
			next.next, next.stop = make(chan struct{}, 1), make(chan struct{})
			l.readers.copy = next
		}
		l.readers.busy++
		l.readers.jobs <- next
	}
	if l.machine.set.Run.Pull() {
		select {
		case l.readers.copy.next <- struct{}{}:
		default: // its copy has failed
		}
	}
	l.showBegun()
	l.showHeld()
	if l.machine.Asks() && time.Since(l.askedAt) >= askEvery {
		l.askedAt = time.Now()
		l.session.conn.Ask()
	}
}

// askEvery is how often the server is asked where the stream stands while a chunk waits for
// a position that nothing else tells.
const askEvery = 20 * time.Millisecond

// runDeadline is the earlier of a deadline and those of the run. The publications are due
// although an idle stream brings nothing that would make the loop look.
func (l *loop) runDeadline(deadline time.Time) time.Time {
	if l.readers == nil {
		return deadline
	}
	others := []time.Time{l.machine.RunDeadline(), l.machine.HoldDeadline()}
	if l.ended == nil {
		others = append(others, l.listedAt.Add(l.session.pipeline.options.GuardInterval))
	}
	if l.machine.Asks() {
		others = append(others, l.askedAt.Add(askEvery))
	}
	for _, other := range others {
		if !other.IsZero() && (deadline.IsZero() || other.Before(deadline)) {
			deadline = other
		}
	}
	return deadline
}

// found takes what a reader brings.
func (l *loop) found(f foundJob) error {
	l.machine.At(time.Now())
	defer l.carryOut()
	run := l.machine.set.Run
	if f.request != nil {
		l.readers.asked = f.request
		return nil
	}
	if f.piece {
		l.session.pipeline.copyXmin.Store(f.result.Read.Snapshot.Min)
		run.Copying(f.job.ID, f.result.Read.Snapshot, f.result.Read.High, f.result.Read.Relation)
		if f.result.Read.Cut {
			run.Piece(f.job.ID, f.result.Read.Rows, false)
		}
		return nil
	}
	l.readers.busy--
	if f.job.Kind == incremental.JobCopy {
		l.session.pipeline.copyXmin.Store(0)
	}
	halt, halted := core.AsHalt(f.err)
	switch {
	case halted && f.job.Partly: // what cannot be repaired need not be: that is seen when it comes
		l.unread(halt)
		run.Failed(f.job.ID)
		return nil
	case halted:
		l.machine.Stop(halt)
		return nil
	case errors.Is(f.err, chunks.ErrElsewhere):
		return &again{StateStarting, reconnectMin, f.err}
	case f.err != nil:
		l.unread(f.err)
		run.Failed(f.job.ID)
		return nil
	}
	l.readable()
	switch f.job.Kind {
	case incremental.JobList:
		var next [16]byte
		_, _ = rand.Read(next[:]) // documented never to fail
		return l.listed(run.Listed(f.result.Members, next), f)
	case incremental.JobLook:
		run.Looked(f.result.Look)
	case incremental.JobSnapshot:
		run.Shown(f.job.ID, f.result.Snapshot, f.result.End)
	case incremental.JobCopy:
		run.Piece(f.job.ID, f.result.Read.Rows, true)
	case incremental.JobCut:
		run.Cut(f.job.ID, f.result.Cut)
	case incremental.JobChunk:
		_ = failpoint.Hit(failpoint.ChunkBuffered)
		return run.Read(f.result.Read)
	}
	return nil
}
