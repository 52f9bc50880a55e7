package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
)

// chain is what every call passes, the first outermost: observed, logged, panics
// caught, caller known, and every error turned into an answer of the contract.
func chain(o options) []grpc.ServerOption {
	logger := wire.CallLogger(o.logger)
	catch := recovery.WithRecoveryHandlerContext(recovered(o))
	observe := observer(o.onCall)
	unary := []grpc.UnaryServerInterceptor{
		interceptors.UnaryServerInterceptor(observe),
		logging.UnaryServerInterceptor(logger, wire.CallLogOptions()...),
		recovery.UnaryServerInterceptor(catch),
	}
	stream := []grpc.StreamServerInterceptor{
		interceptors.StreamServerInterceptor(observe),
		logging.StreamServerInterceptor(logger, wire.CallLogOptions()...),
		recovery.StreamServerInterceptor(catch),
	}
	if o.token != nil {
		unary = append(unary, auth.UnaryServerInterceptor(authenticate(o.token)))
		stream = append(stream, auth.StreamServerInterceptor(authenticate(o.token)))
	}
	unary = append(unary, deadline, answers(o))
	stream = append(stream, streamAnswers(o))
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary...), grpc.ChainStreamInterceptor(stream...)}
}

// deadline bounds calls whose caller set none.
func deadline(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if _, set := ctx.Deadline(); !set {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, core.CallTimeoutMax)
		defer cancel()
	}
	return next(ctx, request)
}

func answers(o options) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		response, err := next(ctx, request)
		return response, answerOf(ctx, o, info.FullMethod, err)
	}
}

func streamAnswers(o options) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		return answerOf(stream.Context(), o, info.FullMethod, next(srv, stream))
	}
}

// answerOf makes the status for an error, tells the hook, and logs what came as a
// surprise: by the error's type alone.
func answerOf(ctx context.Context, o options, method string, err error) error {
	if err == nil || !strings.HasPrefix(method, servicePrefix) {
		return err
	}
	call := path.Base(method)
	o.onError(ctx, call, err)
	st := wire.StatusOf(err)
	if st.Code() == codes.Internal || st.Code() == codes.Unknown {
		attrs := []slog.Attr{slog.String("call", call), slog.String("error_type", typeOf(err))}
		if coded, ok := errors.AsType[sqlError](err); ok {
			attrs = append(attrs, slog.String("sqlstate", coded.SQLState()))
		}
		o.logger.LogAttrs(ctx, slog.LevelError, "callback failed", attrs...)
	}
	return st.Err()
}

// sqlError is what database drivers give the SQLSTATE by.
type sqlError interface {
	error
	SQLState() string
}

// typeOf names the innermost error's type.
func typeOf(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return fmt.Sprintf("%T", err)
		}
		err = inner
	}
}

// recovered turns a panic into INTERNAL. A panic's value may hold anything, a row
// included, so only its type and the stack without arguments are logged.
func recovered(o options) recovery.RecoveryHandlerFuncContext {
	return func(ctx context.Context, value any) error {
		o.logger.LogAttrs(ctx, slog.LevelError, "callback panicked",
			slog.String("panic_type", fmt.Sprintf("%T", value)), slog.String("stack", frames(debug.Stack())))
		return status.Error(codes.Internal, wire.FailedText)
	}
}

// frames keeps the places of a stack and drops the lines with arguments.
func frames(stack []byte) string {
	var places []string
	for line := range strings.Lines(string(stack)) {
		if strings.HasPrefix(line, "\t") {
			places = append(places, strings.TrimSpace(line))
		}
	}
	return strings.Join(places, "\n")
}

func authenticate(valid func(string) bool) auth.AuthFunc {
	return func(ctx context.Context) (context.Context, error) {
		token, err := auth.AuthFromMD(ctx, "bearer")
		if err != nil || !valid(token) {
			return nil, status.Error(codes.Unauthenticated, "bearer token missing or not valid")
		}
		return ctx, nil
	}
}

// observer reports finished calls.
func observer(observe func(string, codes.Code, time.Duration)) interceptors.CommonReportableFunc {
	return func(ctx context.Context, meta interceptors.CallMeta) (interceptors.Reporter, context.Context) {
		if observe == nil {
			return interceptors.NoopReporter{}, ctx
		}
		return observed{call: meta.Method, observe: observe}, ctx
	}
}

type observed struct {
	interceptors.NoopReporter
	call    string
	observe func(string, codes.Code, time.Duration)
}

// PostCall is called when the call is over.
func (o observed) PostCall(err error, took time.Duration) { o.observe(o.call, status.Code(err), took) }
