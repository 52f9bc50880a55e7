package wire

import (
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Raw is one message as bytes: encoded by hand before it is sent, or received and not
// decoded yet. Its owner frees it once; gRPC takes a reference of its own.
type Raw struct {
	buffer mem.Buffer
}

// NewRaw takes size bytes from the pool and lets fill append the message to them. A
// message of another size than counted is a bug and panics.
func NewRaw(size int, fill func(dst []byte) []byte) *Raw {
	block := pool.Get(size)
	filled := fill((*block)[:0])
	if len(filled) != size {
		panic("wire: a message was not of the size that was counted")
	}
	*block = filled
	return &Raw{buffer: mem.NewBuffer(block, pool)}
}

// Bytes is the encoded message, valid until Free. It must not be written to.
func (r *Raw) Bytes() []byte {
	if r.buffer == nil {
		return nil
	}
	return r.buffer.ReadOnlyData()
}

// Len is the size of the message in bytes.
func (r *Raw) Len() int { return len(r.Bytes()) }

// Free gives the bytes back; everything that aliases them ends here.
func (r *Raw) Free() {
	if r.buffer != nil {
		r.buffer.Free()
		r.buffer = nil
	}
}

// Codec passes *Raw through as it is and leaves every other message to gRPC's own
// protobuf codec. It goes by that codec's name, since the bytes are the same.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// Name is the content subtype.
func (Codec) Name() string { return protocodec.Name }

// Marshal hands the bytes of a *Raw to gRPC without a copy.
func (Codec) Marshal(message any) (mem.BufferSlice, error) {
	raw, ok := message.(*Raw)
	if !ok {
		return encoding.GetCodecV2(protocodec.Name).Marshal(message)
	}
	if raw.buffer == nil {
		return nil, nil
	}
	raw.buffer.Ref()
	return mem.BufferSlice{raw.buffer}, nil
}

// Unmarshal joins what gRPC received into one buffer that belongs to the *Raw.
func (Codec) Unmarshal(data mem.BufferSlice, message any) error {
	raw, ok := message.(*Raw)
	if !ok {
		return encoding.GetCodecV2(protocodec.Name).Unmarshal(data, message)
	}
	raw.Free()
	raw.buffer = data.MaterializeToBuffer(pool)
	return nil
}
