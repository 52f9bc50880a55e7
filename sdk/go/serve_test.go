package sink

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
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
	address := "unix:" + filepath.Join(t.TempDir(), "s")
	require.ErrorIs(t, Serve(ctx, address, onlyCapabilities{}), ErrNothingImplemented)
	nameless := Serve(ctx, address, FromStore("", "1", newMemStore(), StoreOptions{}))
	require.ErrorContains(t, nameless, "sink_name")
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
	entered, release, over := make(chan string, 10), make(chan struct{}), make(chan codes.Code, 10)
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
	}, WithCallObserver(func(_ string, code codes.Code, _ time.Duration) { over <- code }))
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
	for code := codes.OK; code == codes.OK; code = <-over {
	} // the sink's end has given the impatient call up too
	require.Empty(t, entered, "a call ran beside another of its stream")
	close(release)
	require.NoError(t, <-second)
	require.NoError(t, <-claim)
	require.ElementsMatch(t, []string{"s", "checkpoint true"}, []string{<-entered, <-entered})
	require.Empty(t, entered, "a call that nobody waited for any more ran")
}

func TestACallThatNobodyWaitsForDoesNotBegin(t *testing.T) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	s := newStreams(nil)
	for range 100 {
		_, _, err := s.write(gone, &core.Call{StreamID: "s", Owner: core.OwnerSink})
		require.ErrorIs(t, err, context.Canceled)
	}
	_, leave, err := s.write(context.Background(), &core.Call{StreamID: "s", Owner: core.OwnerSink})
	require.NoError(t, err, "the turn was kept")
	leave()
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
