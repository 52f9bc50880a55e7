package remotesink

import (
	"context"
	"os"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// tokenFile sends the content of a file as bearer token. A token that cannot be read is
// the same to the engine as one that the sink refuses: slow retries, then a halt.
type tokenFile struct {
	name  string
	mu    sync.Mutex
	stamp string
	token string
}

// GetRequestMetadata is grpc's credentials.PerRPCCredentials.
func (t *tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if stamp := fileStamp(t.name); stamp != t.stamp {
		content, err := os.ReadFile(t.name)
		token := strings.TrimSpace(string(content))
		if err != nil || token == "" || strings.ContainsAny(token, "\r\n") {
			return nil, status.Error(codes.Unauthenticated, "the token file cannot be read or holds no token")
		}
		t.stamp, t.token = stamp, token
	}
	return map[string]string{"authorization": "Bearer " + t.token}, nil
}

// RequireTransportSecurity is false since Options refuse plain TCP beyond this machine
// unless it was asked for.
func (*tokenFile) RequireTransportSecurity() bool { return false }
