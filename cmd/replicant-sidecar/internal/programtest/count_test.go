package programtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// countSink discards rows and stores how many there were, in the order that they must have.
type countSink struct{ *fileSink }

func (s countSink) HandleLargeTransaction(ctx context.Context, l core.LargeTransaction) (core.Ack, error) {
	begin, rows := l.Begin(), uint64(0)
	for {
		f, err := l.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return core.Ack{}, io.ErrUnexpectedEOF
		case err != nil:
			return core.Ack{}, err
		case f.Commit != nil:
			s.mu.Lock()
			defer s.mu.Unlock()
			if begin.Call.Epoch != s.last.Epoch {
				return core.Ack{}, &core.Refusal{Reason: core.ReasonFenced}
			}
			if rows != f.Commit.ChangeCount {
				return core.Ack{}, fmt.Errorf("%d rows, announced are %d", rows, f.Commit.ChangeCount)
			}
			stored := line{Position: uint64(f.Commit.Checkpoint), Epoch: s.last.Epoch, IDs: []string{fmt.Sprintf("%d rows", rows)}}
			return core.Ack{Checkpoint: f.Commit.Checkpoint}, s.store(stored)
		}
		for i := range f.Changes {
			rows++
			if got := string(f.Changes[i].New.Value(0).Text); got != strconv.FormatUint(rows, 10) {
				return core.Ack{}, fmt.Errorf("row %s where %d should be", got, rows)
			}
		}
	}
}
