package pgembed

import "context"

// reachable returns binaries that the account can run.
func reachable(ctx context.Context, b Binaries, who account) (Binaries, error) {
	if who.cred == nil {
		return b, nil
	}
	return b, who.canRun(ctx, b)
}
