package wire

import (
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"
)

// The pool keeps request buffers in powers of two from 4 KiB to 64 MiB. gRPC's own
// pool clears a buffer on every Get, which for requests of a megabyte that are
// overwritten at once costs as much as the copy of the rows.
const (
	smallestClass = 12
	largestClass  = 26
)

type bufferPool struct {
	classes [largestClass + 1]sync.Pool
}

var pool = &bufferPool{}

var _ mem.BufferPool = pool

func classOf(size int) int { return max(bits.Len(uint(max(size, 1)-1)), smallestClass) }

// Get returns a buffer of that length whose content is undefined.
func (p *bufferPool) Get(size int) *[]byte {
	class := classOf(size)
	if class > largestClass {
		block := make([]byte, size)
		return &block
	}
	if block, ok := p.classes[class].Get().(*[]byte); ok {
		*block = (*block)[:size]
		return block
	}
	block := make([]byte, size, 1<<class)
	return &block
}

// Put takes a buffer of Get back; what came from elsewhere is left to the collector.
func (p *bufferPool) Put(block *[]byte) {
	class := classOf(cap(*block))
	if class <= largestClass && cap(*block) == 1<<class {
		p.classes[class].Put(block)
	}
}
