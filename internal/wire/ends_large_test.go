package wire_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
	"github.com/replicant-sidecar/replicant-sidecar/remotesink"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// source is a large transaction that is made while it is pulled.
type source struct {
	relation *core.Relation
	pieces   int // of 100 changes each
	sent     atomic.Int64
	err      error
	stall    func(context.Context) error
	done     bool
	changes  uint64
}

func (s *source) Begin() core.LargeBegin {
	return core.LargeBegin{Call: call(), Expected: 77, XID: 4, CommitLSN: 100, CommitTime: time.Unix(1e9, 0).UTC()}
}

func (s *source) Next(ctx context.Context) (core.LargeFrame, error) {
	if s.stall != nil {
		if err := s.stall(ctx); err != nil {
			return core.LargeFrame{}, err
		}
	}
	if s.pieces == 0 {
		if s.err != nil {
			return core.LargeFrame{}, s.err
		}
		if s.done {
			return core.LargeFrame{}, io.EOF
		}
		s.done = true
		return core.LargeFrame{Commit: &core.LargeCommit{EndLSN: 200, Checkpoint: 200, ChangeCount: s.changes, ResumeState: []byte("r")}}, nil
	}
	s.pieces--
	frame := core.LargeFrame{FirstChangeIndex: s.changes}
	for range 100 {
		frame.Changes = append(frame.Changes, core.Change{Op: core.OpInsert, Relation: s.relation, New: core.PackTuple(core.Text("some text of a row"), core.Null())})
	}
	s.changes += 100
	s.sent.Add(1)
	return frame, nil
}

// puller is a sink for large transactions whose handler is a function.
type puller struct {
	noop
	handle func(context.Context, core.LargeTransaction) (core.Ack, error)
}

func (p puller) HandleLargeTransaction(ctx context.Context, large core.LargeTransaction) (core.Ack, error) {
	return p.handle(ctx, large)
}

// pullAll reads to the commit frame and counts.
func pullAll(ctx context.Context, large core.LargeTransaction) (changes int, frames int, commit *core.LargeCommit, err error) {
	for {
		frame, err := large.Next(ctx)
		if err != nil {
			return changes, frames, commit, err
		}
		if frame.Commit != nil {
			return changes, frames, frame.Commit, nil
		}
		frames++
		changes += len(frame.Changes)
	}
}

func TestLargeTransactionFlowsThrough(t *testing.T) {
	var begin core.LargeBegin
	var changes, frames int
	var last error
	remote := serveSink(t, puller{handle: func(ctx context.Context, large core.LargeTransaction) (core.Ack, error) {
		begin = large.Begin()
		var commit *core.LargeCommit
		var err error
		changes, frames, commit, err = pullAll(ctx, large)
		if err != nil {
			return core.Ack{}, err
		}
		_, last = large.Next(ctx)
		n := uint64(changes)
		return core.Ack{Checkpoint: commit.Checkpoint, Counts: core.Counts{Inserted: &n}}, nil
	}})
	transaction := &source{relation: people(), pieces: 300}
	ack, err := remote.HandleLargeTransaction(timed(t), transaction)
	require.NoError(t, err)
	require.Equal(t, core.LSN(200), ack.Checkpoint)
	require.Equal(t, uint64(30000), *ack.Counts.Inserted)
	require.Equal(t, transaction.Begin(), begin)
	require.Equal(t, 30000, changes)
	require.Equal(t, 300, frames)
	require.ErrorIs(t, last, io.EOF)
}

func timed(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func sinkFailure(t *testing.T, err error) *core.SinkError {
	t.Helper()
	failure, ok := errors.AsType[*core.SinkError](err)
	require.True(t, ok, "%v", err)
	return failure
}

// A refusal ends the sending at once, while frames flow and while the source is waited
// for.
func TestLargeEarlyFailureIsSeen(t *testing.T) {
	refuse := &core.Refusal{Reason: core.ReasonCheckpointBehind}
	remote := serveSink(t, puller{handle: func(ctx context.Context, large core.LargeTransaction) (core.Ack, error) {
		_, err := large.Next(ctx)
		if err != nil {
			return core.Ack{}, err
		}
		return core.Ack{}, refuse
	}})
	endless := &source{relation: people(), pieces: 1 << 30}
	_, err := remote.HandleLargeTransaction(timed(t), endless)
	require.Equal(t, core.ClassBehind, sinkFailure(t, err).Class)

	waits := &source{relation: people(), pieces: 1 << 30}
	waits.stall = func(ctx context.Context) error {
		if waits.sent.Load() < 2 {
			return nil
		}
		<-ctx.Done() // a source that has nothing to give
		return ctx.Err()
	}
	_, err = remote.HandleLargeTransaction(timed(t), waits)
	require.Equal(t, core.ClassBehind, sinkFailure(t, err).Class)
}

// When the source fails the sink never sees a commit frame and learns that the call is
// over; the error that comes back is the source's.
func TestLargeSourceFailureLeavesNothing(t *testing.T) {
	entered, saw := make(chan struct{}, 9), make(chan error, 9)
	var commits atomic.Int64
	remote := serveSink(t, puller{handle: func(ctx context.Context, large core.LargeTransaction) (core.Ack, error) {
		entered <- struct{}{}
		_, _, commit, err := pullAll(ctx, large)
		if commit != nil {
			commits.Add(1)
		}
		saw <- err
		return core.Ack{}, err
	}})
	lost := errors.New("replication connection lost")
	failing := &source{relation: people(), pieces: 3, err: lost}
	failing.stall = func(context.Context) error {
		if failing.sent.Load() == 3 {
			<-entered
		}
		return nil
	}
	_, err := remote.HandleLargeTransaction(timed(t), failing)
	require.Same(t, lost, err)
	require.ErrorIs(t, <-saw, context.Canceled)

	_, err = remote.HandleLargeTransaction(timed(t), &source{relation: people(), done: true})
	require.ErrorContains(t, err, "without a commit frame")

	foreign := people()
	foreign.Name = "\xff"
	_, err = remote.HandleLargeTransaction(timed(t), &source{relation: foreign, pieces: 1})
	require.Equal(t, core.HaltValueUnrepresentable, sinkFailure(t, err).Halt)

	ctx, cancel := context.WithCancel(timed(t))
	cancelled := &source{relation: people(), pieces: 1 << 30}
	cancelled.stall = func(context.Context) error {
		if cancelled.sent.Load() == 3 {
			cancel()
		}
		return nil
	}
	_, err = remote.HandleLargeTransaction(ctx, cancelled)
	require.Equal(t, core.ClassUnknown, sinkFailure(t, err).Class)
	require.Zero(t, commits.Load())
}

// A sink that stops reading is given up, and so is one that never answers the commit.
func TestLargeWithoutProgressEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sink")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	release := make(chan struct{})
	server := grpc.NewServer()
	sinkv1.RegisterSinkServiceServer(server, &deaf{release: release})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	remote, err := remotesink.New(remotesink.Options{Address: "unix:" + path, ProgressTimeout: 100 * time.Millisecond})
	require.NoError(t, err)
	_, err = remote.Capabilities(timed(t)) // says that a call may run 100 ms
	require.NoError(t, err)
	for _, pieces := range []int{1 << 30, 1} {
		began := time.Now()
		_, err = remote.HandleLargeTransaction(timed(t), &source{relation: people(), pieces: pieces})
		require.Less(t, time.Since(began), 10*time.Second, "the caller's deadline ended it")
		failure := sinkFailure(t, err)
		require.Equal(t, core.ClassUnknown, failure.Class)
		require.Equal(t, "DEADLINE_EXCEEDED", failure.Code)
		require.False(t, failure.NeverSent)
	}
	close(release)
	require.NoError(t, remote.Close())
	server.Stop()
	require.NoError(t, <-served)
}

type deaf struct {
	sinkv1.UnimplementedSinkServiceServer
	release chan struct{}
}

func (*deaf) GetCapabilities(context.Context, *sinkv1.GetCapabilitiesRequest) (*sinkv1.GetCapabilitiesResponse, error) {
	return shortCalls, nil
}

func (d *deaf) HandleLargeTransaction(grpc.ClientStreamingServer[sinkv1.HandleLargeTransactionRequest, sinkv1.HandleLargeTransactionResponse]) error {
	<-d.release
	return status.Error(codes.Internal, "")
}

// early answers OK before it saw the commit frame.
type early struct {
	sinkv1.UnimplementedSinkServiceServer
}

func (early) HandleLargeTransaction(s grpc.ClientStreamingServer[sinkv1.HandleLargeTransactionRequest, sinkv1.HandleLargeTransactionResponse]) error {
	if _, err := s.Recv(); err != nil {
		return err
	}
	return s.SendAndClose(&sinkv1.HandleLargeTransactionResponse{CheckpointLsn: proto.Uint64(200)})
}

func TestLargeEarlyOKIsABreach(t *testing.T) {
	remote := serveGenerated(t, early{})
	_, err := remote.HandleLargeTransaction(timed(t), &source{relation: people(), pieces: 1 << 30})
	failure := sinkFailure(t, err)
	require.Equal(t, core.ClassRefused, failure.Class)
	require.Equal(t, core.HaltSinkContract, failure.Halt)
}

// The SDK's end: frames that stop, a handler that says OK too early, and a claim that
// waits for a silent sidecar.
func TestLargeAtTheSDK(t *testing.T) {
	remote := serveSink(t, puller{handle: func(ctx context.Context, large core.LargeTransaction) (core.Ack, error) {
		_, _ = large.Next(ctx)
		return core.Ack{Checkpoint: 200}, nil
	}})
	_, err := remote.HandleLargeTransaction(timed(t), &source{relation: people(), pieces: 3})
	require.Equal(t, core.ClassSuspicious, sinkFailure(t, err).Class, "OK without the commit frame")

	// A handler may swallow the error of Next; the call fails all the same.
	silent := serveSink(t, claimable{puller{handle: func(ctx context.Context, large core.LargeTransaction) (core.Ack, error) {
		_, _, _, _ = pullAll(ctx, large)
		return core.Ack{Checkpoint: 200}, nil
	}}}, sink.WithFrameTimeout(100*time.Millisecond))
	quiet := func() *source {
		s := &source{relation: people(), pieces: 2}
		s.stall = func(ctx context.Context) error {
			if s.sent.Load() == 2 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		return s
	}
	_, err = silent.HandleLargeTransaction(timed(t), quiet())
	require.Equal(t, "DEADLINE_EXCEEDED", sinkFailure(t, err).Code)

	entered := make(chan struct{})
	patient := serveSink(t, claimable{puller{handle: func(ctx context.Context, large core.LargeTransaction) (core.Ack, error) {
		close(entered)
		_, _, _, err := pullAll(ctx, large)
		return core.Ack{}, err
	}}})
	ended := make(chan error, 1)
	started := quiet()
	go func() { _, err := patient.HandleLargeTransaction(timed(t), started); ended <- err }()
	<-entered
	_, err = patient.Checkpoint(timed(t), core.CheckpointRequest{StreamID: "s", Claim: &core.Claim{Epoch: 4}})
	require.NoError(t, err, "the claim waited for a sidecar that sends nothing")
	require.Equal(t, "ABORTED", sinkFailure(t, <-ended).Code)
}

type claimable struct{ puller }

func (claimable) Checkpoint(context.Context, core.CheckpointRequest) (core.Checkpoint, error) {
	return core.Checkpoint{}, nil
}
