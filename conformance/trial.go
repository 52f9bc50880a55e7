package conformance

import "context"

// Trial is one run of one case: its streams, its schema, the sink, and what was seen.
type Trial struct {
	ctx context.Context
}
