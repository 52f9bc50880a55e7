package conformance

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// quickBackoff is for sinks on this machine that were just started: hundreds of starts are
// waited for, and each try is cheap.
var quickBackoff = backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, Jitter: 0.1, MaxDelay: 50 * time.Millisecond}

// sourceClock is the commit time of every transaction here: runs repeat.
var sourceClock = time.Date(2024, 2, 29, 12, 0, 0, 123456000, time.UTC)

// link is a connection to the sink.
type link struct {
	conn *grpc.ClientConn
	sink sinkv1.SinkServiceClient
	two  sinkv1.TwoPhaseSinkServiceClient
}

func (l *link) close() { _ = l.conn.Close() }

// dial makes a connection; it is made when first used.
func dial(address string, seen func(*answer), extra ...grpc.DialOption) (*link, error) {
	target := address
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(sinkv1.MaxReceiveBytes), grpc.MaxCallSendMsgSize(1<<31-1)),
		grpc.WithUnaryInterceptor(recordUnary(seen)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quickBackoff, MinConnectTimeout: time.Second}),
	}
	if strings.HasPrefix(address, "unix:") {
		options = append(options, grpc.WithAuthority("localhost"))
	} else {
		target = "passthrough:///" + address
	}
	conn, err := grpc.NewClient(target, append(options, extra...)...)
	if err != nil {
		return nil, err
	}
	return &link{conn: conn, sink: sinkv1.NewSinkServiceClient(conn), two: sinkv1.NewTwoPhaseSinkServiceClient(conn)}, nil
}

// answer is how a call ended. As an error it is a refusal; its text names no value.
type answer struct {
	Call   string
	Start  time.Time
	Took   time.Duration
	Code   codes.Code
	Reason string
	// Position is what an OK answered, of Checkpoint what is stored; 0 for none.
	Position uint64
	// message, details and trailers are kept for the cases that judge them alone.
	message  string
	details  []any
	size     int
	trailers metadata.MD
	retry    bool
}

// Error names code and reason.
func (a *answer) Error() string {
	if a.Reason != "" {
		return a.Code.String() + " (" + a.Reason + ")"
	}
	return a.Code.String()
}

// answerOf reads a call's end.
func answerOf(call string, start time.Time, err error, trailers metadata.MD) *answer {
	a := &answer{Call: call, Start: start, Took: time.Since(start), trailers: trailers}
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	a.Code, a.message, a.details = st.Code(), st.Message(), st.Details()
	for _, d := range st.Proto().GetDetails() {
		a.size += proto.Size(d)
	}
	for _, d := range a.details {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == sinkv1.ErrorDomain {
				a.Reason = d.GetReason()
			}
		case *errdetails.RetryInfo:
			a.retry = true
		}
	}
	if values := trailers.Get(sinkv1.ReasonMetadata); a.Reason == "" && len(values) > 0 {
		a.Reason = values[0]
	}
	a.Reason = reasonText(a.Reason)
	return a
}

// recordUnary tells each call's end to seen, and turns errors into answers.
func recordUnary(seen func(*answer)) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		var trailers metadata.MD
		start := time.Now()
		err := invoke(ctx, method, req, reply, cc, append(opts, grpc.Trailer(&trailers))...)
		a := answerOf(method[strings.LastIndexByte(method, '/')+1:], start, err, trailers)
		if p, ok := reply.(interface{ GetCheckpointLsn() uint64 }); ok && err == nil {
			a.Position = p.GetCheckpointLsn()
		}
		if p, ok := reply.(interface{ GetPosition() uint64 }); ok && err == nil {
			a.Position = p.GetPosition()
		}
		seen(a)
		if err != nil {
			return a
		}
		return nil
	}
}

// ended makes an answer of a client stream's end and tells it.
func ended(call string, start time.Time, err error, stream grpc.ClientStream, seen func(*answer)) error {
	if err == nil {
		seen(answerOf(call, start, nil, nil))
		return nil
	}
	if errors.Is(err, io.EOF) { // the stream is over: the true reason comes with RecvMsg
		err = status.Error(codes.Unknown, "stream ended early")
	}
	var trailers metadata.MD
	if stream != nil {
		trailers = stream.Trailer()
	}
	a := answerOf(call, start, err, trailers)
	seen(a)
	return a
}

// refusal gives the answer that an error is.
func refusal(err error) *answer {
	var a *answer
	if errors.As(err, &a) {
		return a
	}
	if err == nil {
		return &answer{Code: codes.OK}
	}
	return answerOf("", time.Now(), err, nil)
}

// validText reports whether a status message keeps L-108.
func (a *answer) validText() bool {
	return utf8.ValidString(a.message) && len(a.message) <= sinkv1.MaxStatusMessageBytes
}
