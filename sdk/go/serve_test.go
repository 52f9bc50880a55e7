package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// served is a sink on a unix socket, with a client of generated code alone.
type served struct {
	*grpc.ClientConn
	sinkv1.SinkServiceClient
	stop func() error
}

func start(t *testing.T, s core.Sink, list ...Option) *served {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sink")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, "unix:"+path, s, append([]Option{WithGrace(5 * time.Second)}, list...)...) }()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	require.NoError(t, err)
	var once sync.Once
	var stopErr error
	stop := func() error {
		once.Do(func() { cancel(); stopErr = <-done })
		return stopErr
	}
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		require.NoError(t, stop())
	})
	return &served{conn, sinkv1.NewSinkServiceClient(conn), stop}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// stub is a sink whose calls are functions.
type stub struct {
	handle func(context.Context, *core.Unit) (core.Ack, error)
	claim  func(context.Context, core.CheckpointRequest) (core.Checkpoint, error)
	about  core.Capabilities
}

func (s *stub) Capabilities(context.Context) (core.Capabilities, error) {
	if s.about.Name == "" {
		s.about.Name = "stub"
	}
	return s.about, nil
}

func (s *stub) HandleTransaction(ctx context.Context, u *core.Unit) (core.Ack, error) {
	return s.handle(ctx, u)
}

func (s *stub) Checkpoint(ctx context.Context, q core.CheckpointRequest) (core.Checkpoint, error) {
	return s.claim(ctx, q)
}

func accept(_ context.Context, u *core.Unit) (core.Ack, error) {
	return core.Ack{Checkpoint: u.Checkpoint}, nil
}

func request(owner sinkv1.CheckpointOwner, epoch, sequence uint64, instance []byte) *sinkv1.HandleTransactionRequest {
	return &sinkv1.HandleTransactionRequest{
		Context: &sinkv1.StreamContext{
			StreamId: "s", CheckpointOwner: owner, Epoch: epoch, SenderId: make([]byte, 16), Sequence: sequence, InstanceId: instance,
		},
		CheckpointLsn: proto.Uint64(9),
	}
}

func TestAdvertisesExactlyWhatIsImplemented(t *testing.T) {
	ctx := within(t)
	all := start(t, &stub{handle: accept, about: core.Capabilities{
		Name: "n", Version: "v", Kind: 9, Set: core.NewCapabilitySet(core.AllCapabilities()...), InstanceID: []byte("own"),
		Fencing: []core.Fencing{core.FencingStored},
	}})
	got, err := all.GetCapabilities(ctx, &sinkv1.GetCapabilitiesRequest{})
	require.NoError(t, err)
	require.Equal(t, []sinkv1.Capability{1, 2, 12}, got.GetCapabilities(), "CHECKPOINT, TRANSACTION and the sink's word for RESUME_STATE")
	require.Equal(t, []sinkv1.Fencing{1, 2}, got.GetFencing())
	require.Equal(t, sinkv1.SinkKind_SINK_KIND_STATE_MIRROR, got.GetSinkKind(), "an unknown kind is the strict one")
	require.Len(t, got.GetInstanceId(), 16)
	again, err := all.GetCapabilities(ctx, &sinkv1.GetCapabilitiesRequest{})
	require.NoError(t, err)
	require.True(t, proto.Equal(got, again))

	shared := start(t, &stub{handle: accept}, WithSeveralProcesses())
	other, err := shared.GetCapabilities(ctx, &sinkv1.GetCapabilitiesRequest{})
	require.NoError(t, err)
	require.Empty(t, other.GetFencing())
	require.NotEqual(t, got.GetInstanceId(), other.GetInstanceId())

	for name, call := range map[string]func() error{
		"HandleBatch":   func() error { _, err := all.HandleBatch(ctx, &sinkv1.HandleBatchRequest{}); return err },
		"HandleMessage": func() error { _, err := all.HandleMessage(ctx, &sinkv1.HandleMessageRequest{}); return err },
		"HandleSchemaChange": func() error {
			_, err := all.HandleSchemaChange(ctx, &sinkv1.HandleSchemaChangeRequest{})
			return err
		},
		"HandleSnapshot": func() error { _, err := all.HandleSnapshot(ctx, &sinkv1.HandleSnapshotRequest{}); return err },
		"HandleSessionIdentity": func() error {
			_, err := all.HandleSessionIdentity(ctx, &sinkv1.HandleSessionIdentityRequest{})
			return err
		},
		"HandleSlotOrigin": func() error { _, err := all.HandleSlotOrigin(ctx, &sinkv1.HandleSlotOriginRequest{}); return err },
		"HandleLargeTransaction": func() error {
			stream, err := all.HandleLargeTransaction(ctx)
			require.NoError(t, err)
			_, err = stream.CloseAndRecv()
			return err
		},
	} {
		require.Equal(t, codes.Unimplemented, status.Code(call()), name)
	}
	require.ErrorIs(t, Serve(ctx, "unix:"+filepath.Join(t.TempDir(), "s"), onlyCapabilities{}), ErrNothingImplemented)
}

type onlyCapabilities struct{}

func (onlyCapabilities) Capabilities(context.Context) (core.Capabilities, error) {
	return core.Capabilities{}, nil
}

// The fence of owner SIDECAR, line by line, and that owner SINK knows nothing of it.
func TestMemoryFence(t *testing.T) {
	ctx := within(t)
	ran := 0
	s := start(t, &stub{handle: func(_ context.Context, u *core.Unit) (core.Ack, error) {
		ran++
		return core.Ack{Checkpoint: u.Checkpoint}, nil
	}})
	about, err := s.GetCapabilities(ctx, &sinkv1.GetCapabilitiesRequest{})
	require.NoError(t, err)
	me, sidecar, owned := about.GetInstanceId(), sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SIDECAR, sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SINK
	for _, step := range []struct {
		name            string
		owner           sinkv1.CheckpointOwner
		epoch, sequence uint64
		instance        []byte
		reason          string
	}{
		{"first", sidecar, 3, 10, me, ""},
		{"same sequence", sidecar, 3, 10, me, "STALE_DELIVERY"},
		{"lower sequence", sidecar, 3, 9, me, "STALE_DELIVERY"},
		{"next", sidecar, 3, 11, me, ""},
		{"other instance, higher epoch", sidecar, 4, 1, []byte("other"), "INSTANCE_CHANGED"},
		{"the refused epoch was not remembered", sidecar, 3, 12, me, ""},
		{"higher epoch, lower sequence", sidecar, 4, 1, me, ""},
		{"overtaken", sidecar, 3, 99, me, "FENCED"},
		{"owner sink is not fenced here", owned, 1, 1, []byte("other"), ""},
		{"and teaches nothing", sidecar, 4, 2, me, ""},
	} {
		before := ran
		_, err := s.HandleTransaction(ctx, request(step.owner, step.epoch, step.sequence, step.instance))
		if step.reason == "" {
			require.NoError(t, err, step.name)
			require.Equal(t, before+1, ran, step.name)
			continue
		}
		require.Equal(t, core.Reason(step.reason), wire.SinkErrorOf("c", err, nil, false).Reason, step.name)
		require.Equal(t, before, ran, step.name)
	}
}

// Calls of a stream run one after the other, behind one whose caller gave up too; other
// streams and reads do not wait.
func TestCallsOfAStreamAreSerial(t *testing.T) {
	ctx := within(t)
	entered, release := make(chan string, 10), make(chan struct{})
	s := start(t, &stub{
		handle: func(_ context.Context, u *core.Unit) (core.Ack, error) {
			entered <- u.Call.StreamID
			if u.Call.StreamID == "s" {
				<-release // deaf to its context
			}
			return core.Ack{Checkpoint: u.Checkpoint}, nil
		},
		claim: func(_ context.Context, q core.CheckpointRequest) (core.Checkpoint, error) {
			entered <- fmt.Sprint("checkpoint ", q.Claim != nil)
			return core.Checkpoint{}, nil
		},
	})
	short, cancel := context.WithCancel(ctx)
	first := make(chan error, 1)
	go func() { _, err := s.HandleTransaction(short, request(1, 1, 1, nil)); first <- err }()
	require.Equal(t, "s", <-entered)
	cancel()
	require.Equal(t, codes.Canceled, status.Code(<-first))

	source := &sinkv1.SourceIdentity{}
	second, claim := make(chan error, 1), make(chan error, 1)
	go func() { _, err := s.HandleTransaction(ctx, request(1, 1, 2, nil)); second <- err }()
	_, err := s.Checkpoint(ctx, &sinkv1.CheckpointRequest{StreamId: "s", Source: source})
	require.NoError(t, err)
	require.Equal(t, "checkpoint false", <-entered)
	other := request(1, 1, 1, nil)
	other.Context.StreamId = "other"
	_, err = s.HandleTransaction(ctx, other)
	require.NoError(t, err)
	require.Equal(t, "other", <-entered)
	go func() {
		_, err := s.Checkpoint(ctx, &sinkv1.CheckpointRequest{
			StreamId: "s", Source: source, Claim: &sinkv1.CheckpointClaim{Epoch: 2, SenderId: make([]byte, 16)},
		})
		claim <- err
	}()
	impatient, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	_, err = s.HandleTransaction(impatient, request(1, 1, 3, nil))
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	require.Empty(t, entered, "a call ran beside another of its stream")
	close(release)
	require.NoError(t, <-second)
	require.NoError(t, <-claim)
	require.ElementsMatch(t, []string{"s", "checkpoint true"}, []string{<-entered, <-entered})
	require.Empty(t, entered, "a call that nobody waited for any more ran")
}

func TestPositionsOfAUnitAreChecked(t *testing.T) {
	ctx := within(t)
	s := start(t, &stub{handle: accept})
	bad := request(1, 1, 1, nil)
	bad.CheckpointLsn = nil
	_, err := s.HandleTransaction(ctx, bad)
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.Contains(t, err.Error(), "checkpoint_lsn: missing")
	bad = request(1, 1, 1, nil)
	bad.Transaction = &sinkv1.Transaction{CommitLsn: 5, EndLsn: 10}
	_, err = s.HandleTransaction(ctx, bad)
	require.Equal(t, codes.InvalidArgument, status.Code(err), "9 is below the transaction's end")
	require.Error(t, checkUnit(&core.Unit{Call: core.Call{Owner: core.OwnerSink}, Checkpoint: 9, Transactions: []core.Transaction{{EndLSN: 7}, {EndLSN: 7}}}))
	bad.Context.CheckpointOwner = 2
	_, err = s.HandleTransaction(ctx, bad)
	require.Equal(t, core.ReasonInstanceChanged, wire.SinkErrorOf("c", err, nil, false).Reason, "owner SIDECAR: positions mean nothing")
}

// Neither a panic nor a driver's error shows a value: not to the caller, not in the log.
func TestFailuresShowNoValue(t *testing.T) {
	ctx := within(t)
	const secret = "SECRET-4711"
	var log bytes.Buffer
	var mu sync.Mutex
	logger := slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var fail func() error
	var hooked []error
	var seen []string
	s := start(t, &stub{handle: func(context.Context, *core.Unit) (core.Ack, error) { return core.Ack{}, fail() }},
		WithLogger(logger), WithErrorHook(func(_ context.Context, call string, err error) { hooked = append(hooked, err) }),
		WithCallObserver(func(call string, code codes.Code, _ time.Duration) { seen = append(seen, fmt.Sprint(call, " ", code)) }))
	driver := &pgError{secret}
	for _, failing := range []func() error{
		func() error { panic(secret) },
		func() error { panic(fmt.Errorf("bad row %s", secret)) },
		func() error { var m map[string]int; m[secret] = 1; return nil },
		func() error { return driver },
		func() error { return fmt.Errorf("insert %s: %w", secret, driver) },
		func() error { return errors.New(secret) },
	} {
		fail = failing
		_, err := s.HandleTransaction(ctx, request(1, 1, 1, nil))
		require.Equal(t, codes.Internal, status.Code(err))
		require.Equal(t, wire.FailedText, status.Convert(err).Message())
	}
	fail = func() error { return nil } // the stream's turn was given back each time
	_, err := s.HandleTransaction(ctx, request(1, 1, 1, nil))
	require.NoError(t, err)
	require.NoError(t, s.stop())
	mu.Lock()
	defer mu.Unlock()
	require.NotContains(t, log.String(), secret)
	require.Equal(t, 3, strings.Count(log.String(), "callback panicked"))
	require.Contains(t, log.String(), "serve_test.go", "the stack says where")
	require.Equal(t, 3, strings.Count(log.String(), "callback failed"))
	require.Equal(t, 2, strings.Count(log.String(), "sqlstate=23505"))
	require.Len(t, hooked, 3, "the hook sees errors as they are")
	require.Same(t, driver, hooked[0])
	require.Len(t, seen, 7)
	require.Equal(t, "HandleTransaction Internal", seen[0])
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

type pgError struct{ text string }

func (e *pgError) Error() string  { return e.text }
func (*pgError) SQLState() string { return "23505" }

func TestHealthAndReflection(t *testing.T) {
	ctx := within(t)
	s := start(t, &stub{handle: accept})
	for _, service := range []string{"", "replicant.sink.v1.SinkService"} {
		health, err := grpc_health_v1.NewHealthClient(s).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
		require.NoError(t, err)
		require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, health.GetStatus())
	}
	stream, err := grpc_reflection_v1.NewServerReflectionClient(s).ServerReflectionInfo(ctx)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "replicant.sink.v1.SinkService"},
	}))
	answer, err := stream.Recv()
	require.NoError(t, err)
	var file descriptorpb.FileDescriptorProto
	require.NoError(t, proto.Unmarshal(answer.GetFileDescriptorResponse().GetFileDescriptorProto()[0], &file))
	require.Equal(t, "SinkService", file.GetService()[0].GetName())
	require.NoError(t, stream.CloseSend())
	_, _ = stream.Recv()
	calls := map[string]bool{}
	for _, m := range serviceDesc().Methods {
		calls[m.MethodName] = true
	}
	for _, m := range serviceDesc().Streams {
		calls[m.StreamName] = true
	}
	for _, m := range file.GetService()[0].GetMethod() {
		require.True(t, calls[m.GetName()], m.GetName())
	}
}

func TestBearerToken(t *testing.T) {
	ctx := within(t)
	s := start(t, &stub{handle: accept}, WithBearerToken(func(token string) bool { return token == "good" }))
	_, err := s.GetCapabilities(ctx, &sinkv1.GetCapabilitiesRequest{})
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	for token, want := range map[string]codes.Code{"Bearer good": codes.OK, "Bearer bad": codes.Unauthenticated, "good": codes.Unauthenticated} {
		_, err = s.GetCapabilities(metadata.AppendToOutgoingContext(ctx, "authorization", token), &sinkv1.GetCapabilitiesRequest{})
		require.Equal(t, want, status.Code(err), token)
	}
}

// A stop lets the call in progress end.
func TestGracefulStop(t *testing.T) {
	ctx := within(t)
	entered, release := make(chan struct{}), make(chan struct{})
	s := start(t, &stub{handle: func(_ context.Context, u *core.Unit) (core.Ack, error) {
		close(entered)
		<-release
		return core.Ack{Checkpoint: u.Checkpoint}, nil
	}})
	answered := make(chan error, 1)
	go func() { _, err := s.HandleTransaction(ctx, request(1, 1, 1, nil)); answered <- err }()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	select {
	case <-stopped:
		t.Fatal("stopped with a call in progress")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	require.NoError(t, <-answered)
	require.NoError(t, <-stopped)
}

func TestSignals(t *testing.T) {
	address := "unix:" + filepath.Join(t.TempDir(), "sink")
	entered, release := make(chan struct{}, 1), make(chan struct{})
	s := &stub{handle: func(_ context.Context, u *core.Unit) (core.Ack, error) {
		entered <- struct{}{}
		<-release
		return core.Ack{Checkpoint: u.Checkpoint}, nil
	}}
	signals := make(chan os.Signal, 2)
	ended := make(chan error, 1)
	go func() { ended <- run(signals, address, s, []Option{WithGrace(10 * time.Second)}) }()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	require.NoError(t, err)
	answered := make(chan error, 1)
	go func() {
		_, err := sinkv1.NewSinkServiceClient(conn).HandleTransaction(within(t), request(1, 1, 1, nil))
		answered <- err
	}()
	<-entered
	signals <- syscall.SIGTERM
	select {
	case <-ended:
		t.Fatal("the first signal cut a call off")
	case <-time.After(50 * time.Millisecond):
	}
	signals <- syscall.SIGTERM
	require.ErrorIs(t, <-ended, ErrAborted)
	close(release)
	require.NoError(t, <-answered)
	require.NoError(t, conn.Close())

	go func() { ended <- run(signals, address, s, nil) }()
	signals <- os.Interrupt
	require.NoError(t, <-ended)
	require.ErrorIs(t, run(signals, "", s, nil), ErrNoAddress)
}

func TestListenAddresses(t *testing.T) {
	o := resolve(nil)
	for address, want := range map[string]error{"": ErrNoAddress, "unix:": ErrNoAddress, "0.0.0.0:0": ErrPlainTCP, ":0": ErrPlainTCP, "192.0.2.1:0": ErrPlainTCP} {
		_, err := listen(address, o)
		require.ErrorIs(t, err, want, address)
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0", "[::1]:0"} {
		listener, err := listen(address, o)
		if err != nil && strings.HasPrefix(address, "[::1]") {
			continue // no IPv6 here
		}
		require.NoError(t, err, address)
		require.NoError(t, listener.Close())
	}
	path := filepath.Join(t.TempDir(), "sink")
	listener, err := listen("unix://"+path, o)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, err = listen("unix:"+path, o)
	require.ErrorIs(t, err, ErrInUse)
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // as a kill leaves it
	require.NoError(t, listener.Close())
	listener, err = listen("unix:"+path, o)
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = listen("unix:"+path, o)
	require.Error(t, err, "a file that is no socket is not replaced")
}
