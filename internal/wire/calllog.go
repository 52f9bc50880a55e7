package wire

import (
	"context"
	"log/slog"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// loggedFields are the fields of a call that may be logged. The text of an error is not
// among them: it is the other side's and may hold anything.
var loggedFields = map[string]string{
	"grpc.component": "side", logging.MethodFieldKey: "call", "grpc.code": "code",
	"reason": "reason", "grpc.time_ms": "ms",
}

// CallLogger logs calls for both sides of the wire: name, code, reason and time, never a
// payload and never an error's text, and all of it at debug level.
func CallLogger(logger *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, _ logging.Level, message string, fields ...any) {
		if !logger.Enabled(ctx, slog.LevelDebug) {
			return
		}
		var attrs []slog.Attr
		for i := 0; i+1 < len(fields); i += 2 {
			name, isText := fields[i].(string)
			if shown, allowed := loggedFields[name]; isText && allowed {
				attrs = append(attrs, slog.Any(shown, fields[i+1]))
			}
		}
		logger.LogAttrs(ctx, slog.LevelDebug, message, attrs...)
	})
}

// CallLogOptions make the logging interceptors of both sides log finished calls alone.
func CallLogOptions() []logging.Option {
	return []logging.Option{
		logging.WithLogOnEvents(logging.FinishCall),
		logging.WithLevels(func(codes.Code) logging.Level { return logging.LevelDebug }),
		logging.WithErrorFields(func(err error) logging.Fields {
			st, _ := status.FromError(err)
			if reason, _ := readDetails(st, nil); reason != "" {
				return logging.Fields{"reason", string(reason)}
			}
			return nil
		}),
	}
}
