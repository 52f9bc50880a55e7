package wire_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
	"github.com/replicant-sidecar/replicant-sidecar/remotesink"
)

// answers is a sink of generated code alone that answers what it is told to.
type answers struct {
	sinkv1.UnimplementedSinkServiceServer
	err     error
	trailer metadata.MD
}

func (a *answers) answer(ctx context.Context) error {
	if a.trailer != nil {
		_ = grpc.SetTrailer(ctx, a.trailer)
	}
	return a.err
}

func (a *answers) HandleBatch(ctx context.Context, _ *sinkv1.HandleBatchRequest) (*sinkv1.HandleBatchResponse, error) {
	return &sinkv1.HandleBatchResponse{}, a.answer(ctx)
}

func (a *answers) Checkpoint(ctx context.Context, _ *sinkv1.CheckpointRequest) (*sinkv1.CheckpointResponse, error) {
	return &sinkv1.CheckpointResponse{}, a.answer(ctx)
}

func (a *answers) GetCapabilities(ctx context.Context, _ *sinkv1.GetCapabilitiesRequest) (*sinkv1.GetCapabilitiesResponse, error) {
	return &sinkv1.GetCapabilitiesResponse{SinkName: "answers"}, a.answer(ctx)
}

func serveGenerated(t testing.TB, service sinkv1.SinkServiceServer) *remotesink.Sink {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sink")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	server := grpc.NewServer(grpc.MaxRecvMsgSize(core.ReceiveBytesMax))
	sinkv1.RegisterSinkServiceServer(server, service)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	remote, err := remotesink.New(remotesink.Options{Address: "unix:" + path})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, remote.Close())
		server.Stop()
		require.NoError(t, <-served)
	})
	return remote
}

func idle() *core.Unit { return &core.Unit{Call: call(), Expected: 4, Checkpoint: 5} }

// expect is the contract's table once more, written by hand: the test of the table.
var expectReasons = map[core.Reason]struct {
	code  codes.Code
	class core.Class
	halt  core.HaltCode
}{
	"FENCED":                {codes.FailedPrecondition, core.ClassFenced, "fenced"},
	"CHECKPOINT_BEHIND":     {codes.FailedPrecondition, core.ClassBehind, ""},
	"INSTANCE_CHANGED":      {codes.FailedPrecondition, core.ClassRefused, "sink_rejected"},
	"STALE_DELIVERY":        {codes.FailedPrecondition, core.ClassRefused, "sink_rejected"},
	"SOURCE_MISMATCH":       {codes.FailedPrecondition, core.ClassRefused, "source_mismatch"},
	"IDENTITY_REJECTED":     {codes.FailedPrecondition, core.ClassRefused, "identity_rejected"},
	"ORIGIN_REJECTED":       {codes.FailedPrecondition, core.ClassRefused, "origin_rejected"},
	"SCHEMA_DECLINED":       {codes.FailedPrecondition, core.ClassRefused, "schema_change_refused"},
	"UNIT_REJECTED":         {codes.FailedPrecondition, core.ClassRefused, "sink_rejected"},
	"PREPARED_MISPLACED":    {codes.FailedPrecondition, core.ClassRefused, "sink_rejected"},
	"NOT_READY":             {codes.Unavailable, core.ClassThrottled, ""},
	"PREPARED_BUSY":         {codes.Unavailable, core.ClassThrottled, ""},
	"PREPARED_UNKNOWN":      {codes.NotFound, core.ClassSuspicious, ""},
	"PREPARE_CAPACITY":      {codes.ResourceExhausted, core.ClassThrottled, ""},
	"VALUE_UNREPRESENTABLE": {codes.OutOfRange, core.ClassRefused, "value_unrepresentable"},
}

type expectation struct {
	class           core.Class
	halt, atReading core.HaltCode // atReading: of the call Checkpoint
}

var expectCodes = map[codes.Code]expectation{
	codes.InvalidArgument:    {core.ClassRefused, "sink_rejected", "checkpoint_unreadable"},
	codes.FailedPrecondition: {core.ClassRefused, "sink_rejected", "checkpoint_unreadable"},
	codes.OutOfRange:         {core.ClassRefused, "sink_rejected", "checkpoint_unreadable"},
	codes.NotFound:           {core.ClassRefused, "sink_rejected", "checkpoint_unreadable"},
	codes.DataLoss:           {core.ClassRefused, "sink_rejected", "checkpoint_unreadable"},
	codes.AlreadyExists:      {core.ClassRefused, "sink_contract", "sink_contract"},
	codes.Unimplemented:      {core.ClassRefused, "sink_contract", "sink_contract"},
	codes.ResourceExhausted:  {core.ClassTooBig, "", ""},
	codes.Unauthenticated:    {core.ClassUnauthorized, "", ""},
	codes.PermissionDenied:   {core.ClassUnauthorized, "", ""},
	codes.Unavailable:        {core.ClassAway, "", ""},
	codes.DeadlineExceeded:   {core.ClassUnknown, "", ""},
	codes.Canceled:           {core.ClassUnknown, "", ""},
	codes.Aborted:            {core.ClassUnknown, "", ""},
	codes.Internal:           {core.ClassSuspicious, "", ""},
	codes.Unknown:            {core.ClassSuspicious, "", ""},
	codes.Code(99):           {core.ClassSuspicious, "", ""},
}

// Every reason of core has its line, and every line its reason.
func TestReasonTableIsComplete(t *testing.T) {
	require.Len(t, wire.ReasonRows(), len(core.Reasons()))
	for i, reason := range core.Reasons() {
		row, want := wire.ReasonRows()[i], expectReasons[reason]
		require.Equal(t, reason, row.Reason)
		require.Equal(t, want.code, row.Code)
		require.Equal(t, wire.Outcome{Class: want.class, Halt: want.halt}, row.Outcome())
		require.Equal(t, want.code, wire.CodeOf(reason))
		number, known := sinkv1.ErrorReason_value["ERROR_REASON_"+string(reason)]
		require.True(t, known, "%s is not in the contract", reason)
		require.Equal(t, int32(i+1), number)
	}
	require.Len(t, sinkv1.ErrorReason_name, len(core.Reasons())+1)
}

func TestCodeTable(t *testing.T) {
	for code, want := range expectCodes {
		require.Equal(t, wire.Outcome{Class: want.class, Halt: want.halt}, wire.Decide("HandleBatch", code, "", false), code)
		require.Equal(t, want.atReading, wire.Decide("Checkpoint", code, "", false).Halt, code)
	}
	throttled := wire.Outcome{Class: core.ClassThrottled}
	require.Equal(t, throttled, wire.Decide("HandleBatch", codes.ResourceExhausted, "", true))
	require.Equal(t, core.HaltInvalidSink, wire.Decide("GetCapabilities", codes.Unimplemented, "", false).Halt)
	// RetryInfo makes no other code a throttle: an outcome that is unknown stays unknown.
	require.Equal(t, core.ClassAway, wire.Decide("HandleBatch", codes.Unavailable, "", true).Class)
	require.Equal(t, core.ClassSuspicious, wire.Decide("HandleBatch", codes.Internal, "", true).Class)
	for code := codes.OK + 1; code <= codes.Unauthenticated; code++ {
		require.Contains(t, expectCodes, code)
	}
}

// Each line of both tables once more, over a real connection: as details, as trailer,
// and as a Go handler's refusal on the other side of the SDK.
func TestTablesOverGRPC(t *testing.T) {
	sinkEnd := &answers{}
	remote := serveGenerated(t, sinkEnd)
	recorder := &recorder{}
	sdk := serveSink(t, recorder)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	failure := func(s *remotesink.Sink) *core.SinkError {
		_, err := s.HandleBatch(ctx, idle())
		got, ok := errors.AsType[*core.SinkError](err)
		require.True(t, ok, "%v", err)
		return got
	}
	for reason, want := range expectReasons {
		info := &errdetails.ErrorInfo{Reason: string(reason), Domain: "sink.replicant"}
		st, err := status.New(want.code, secret).WithDetails(info)
		require.NoError(t, err)
		expected := &core.SinkError{
			Class: want.class, Reason: reason, Call: "HandleBatch", Code: wire.CodeName(want.code), Halt: want.halt, Detail: secret,
		}
		sinkEnd.err, sinkEnd.trailer = st.Err(), nil
		require.Equal(t, expected, failure(remote), "%s as details", reason)
		sinkEnd.err, sinkEnd.trailer = status.Error(want.code, secret), metadata.Pairs("sink-reason", string(reason))
		require.Equal(t, expected, failure(remote), "%s as trailer", reason)
		// The reason decides, whatever code it comes with.
		sinkEnd.err = status.Error(codes.Internal, secret)
		require.Equal(t, want.class, failure(remote).Class, "%s with another code", reason)
		recorder.err = fmt.Errorf("wrapped: %w", &core.Refusal{Reason: reason, Text: secret})
		require.Equal(t, expected, failure(sdk), "%s through the SDK", reason)
		require.NotContains(t, expected.Error(), secret)
	}
	sinkEnd.trailer = nil
	for code, want := range expectCodes {
		expected := &core.SinkError{Class: want.class, Call: "HandleBatch", Code: wire.CodeName(code), Halt: want.halt, Detail: secret}
		sinkEnd.err = status.Error(code, secret)
		require.Equal(t, expected, failure(remote), code)
		recorder.err = sinkEnd.err
		require.Equal(t, expected, failure(sdk), "%s through the SDK", code)
	}
	sinkEnd.err = status.Error(codes.NotFound, "")
	_, err := remote.Checkpoint(ctx, core.CheckpointRequest{StreamID: "s"})
	require.Equal(t, core.HaltCheckpointUnreadable, err.(*core.SinkError).Halt)
	sinkEnd.err = status.Error(codes.Unimplemented, "")
	_, err = remote.Capabilities(ctx)
	require.Equal(t, core.HaltInvalidSink, err.(*core.SinkError).Halt)
}

func TestDelaysAreReadAndBounded(t *testing.T) {
	sinkEnd := &answers{}
	remote := serveGenerated(t, sinkEnd)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer := func(code codes.Code, delay time.Duration) *core.SinkError {
		st, err := status.New(code, "").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
		require.NoError(t, err)
		sinkEnd.err = st.Err()
		_, err = remote.HandleBatch(ctx, idle())
		return err.(*core.SinkError)
	}
	busy := answer(codes.ResourceExhausted, 3*time.Second)
	require.Equal(t, core.ClassThrottled, busy.Class)
	require.Equal(t, 3*time.Second, busy.RetryAfter)
	require.Zero(t, answer(codes.ResourceExhausted, -time.Second).RetryAfter)
	require.Equal(t, time.Hour, answer(codes.ResourceExhausted, 1000*time.Hour).RetryAfter)
}

func TestReasonsOfOthersAreNoReasons(t *testing.T) {
	for _, info := range []*errdetails.ErrorInfo{
		{Reason: "FENCED", Domain: "example.com"}, {Reason: "FENCED"}, {Reason: "NOT_OURS", Domain: "sink.replicant"},
	} {
		st, err := status.New(codes.Unavailable, "").WithDetails(info)
		require.NoError(t, err)
		got := wire.SinkErrorOf("HandleBatch", st.Err(), metadata.Pairs("sink-reason", "NOT_OURS"), false)
		require.Equal(t, core.ClassAway, got.Class)
		require.Empty(t, got.Reason)
	}
}

// What a handler's error may show to the caller, and what not.
func TestStatusTextIsBoundAndOurs(t *testing.T) {
	long := strings.Repeat("ä", 1000)
	for _, err := range []error{&core.Refusal{Reason: core.ReasonUnitRejected, Text: long}, status.Error(codes.Aborted, long)} {
		text := wire.StatusOf(err).Message()
		require.LessOrEqual(t, len(text), 1024)
		require.Greater(t, len(text), 1000)
		require.True(t, utf8.ValidString(text))
	}
	require.True(t, utf8.ValidString(wire.StatusOf(status.Error(codes.Aborted, "a\xffb")).Message()))
	driver := fmt.Errorf("duplicate key (id)=(%s)", secret)
	require.Equal(t, status.New(codes.Internal, wire.FailedText).Proto(), wire.StatusOf(driver).Proto())
	require.Equal(t, codes.DeadlineExceeded, wire.StatusOf(fmt.Errorf("%s: %w", secret, context.DeadlineExceeded)).Code())
	require.NotContains(t, wire.StatusOf(fmt.Errorf("%s: %w", secret, context.Canceled)).Message(), secret)
	require.Equal(t, codes.Internal, wire.StatusOf(&core.Refusal{Reason: "MADE_UP", Text: secret}).Code())
	big, err := status.New(codes.Aborted, "").WithDetails(&errdetails.DebugInfo{Detail: strings.Repeat("x", 5000)})
	require.NoError(t, err)
	require.Empty(t, wire.StatusOf(big.Err()).Details())
	throttled := wire.SinkErrorOf("HandleBatch", wire.ThrottleStatus(time.Second, "").Err(), nil, false)
	require.Equal(t, core.ClassThrottled, throttled.Class)
	require.Equal(t, time.Second, throttled.RetryAfter)
}
