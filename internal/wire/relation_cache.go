package wire

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// cachedBytesMax bounds the encoded relations that are remembered.
const cachedBytesMax = 8 << 20

// RelationCache gives equal descriptions the same *core.Relation, request after
// request: every request carries its relations, and they hardly ever change. A sink may
// keep what it prepared for a table by that pointer. Safe for concurrent use.
type RelationCache struct {
	mu     sync.RWMutex
	known  map[string]*core.Relation
	cached int
}

// relation decodes a Relation message, or finds it.
func (c *RelationCache) relation(encoded []byte) (*core.Relation, *FieldError) {
	c.mu.RLock()
	known := c.known[string(encoded)]
	c.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	var message sinkv1.Relation
	if proto.Unmarshal(encoded, &message) != nil {
		return nil, broken("", problemNotProtobuf)
	}
	relation, err := relationFromProto(&message)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || c.cached+len(encoded) > cachedBytesMax {
		c.known, c.cached = make(map[string]*core.Relation), 0
	}
	if raced := c.known[string(encoded)]; raced != nil {
		return raced, nil
	}
	c.known[string(encoded)] = relation
	c.cached += len(encoded)
	return relation, nil
}
