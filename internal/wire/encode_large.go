package wire

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// Fields of HandleLargeTransactionRequest.
const (
	frameBegin        = 1
	frameRelation     = 2
	frameSchemaChange = 3
	frameChanges      = 4
	frameCommit       = 5
)

// LargeEncoder builds the frames of one large transaction. Relations are numbered by
// the frames that described them, so one encoder serves one stream.
type LargeEncoder struct {
	table  relationTable
	told   int // relations of the table whose frame was given out
	plan   []plannedChange
	queue  []core.Change
	next   uint64 // ordinal of the first queued change
	target int
}

// NewLargeEncoder makes an encoder whose frames of changes grow to target bytes. A
// single change above it makes a frame of its own.
func NewLargeEncoder(target int) *LargeEncoder { return &LargeEncoder{target: target} }

// Begin is the first frame.
func (e *LargeEncoder) Begin(b core.LargeBegin) (*Raw, error) {
	return frame(&sinkv1.HandleLargeTransactionRequest{Frame: &sinkv1.HandleLargeTransactionRequest_Begin{
		Begin: &sinkv1.LargeBegin{
			Context: callToProto(&b.Call), ExpectedCheckpoint: optionalLSN(b.Expected), Xid: b.XID,
			CommitLsn: uint64(b.CommitLSN), CommitTime: timeToProto(b.CommitTime), Origin: b.Origin,
		},
	}})
}

// SchemaChange tells a new shape. The relation frame follows with the first change.
func (e *LargeEncoder) SchemaChange(c *core.SchemaChange) (*Raw, error) {
	return frame(&sinkv1.HandleLargeTransactionRequest{Frame: &sinkv1.HandleLargeTransactionRequest_SchemaChange{
		SchemaChange: schemaChangeToProto(c),
	}})
}

// Commit is the last frame.
func (e *LargeEncoder) Commit(c *core.LargeCommit) (*Raw, error) {
	return frame(&sinkv1.HandleLargeTransactionRequest{Frame: &sinkv1.HandleLargeTransactionRequest_Commit{
		Commit: &sinkv1.LargeCommit{
			EndLsn: uint64(c.EndLSN), CheckpointLsn: optionalLSN(c.Checkpoint),
			ChangeCount: c.ChangeCount, ResumeState: c.ResumeState,
		},
	}})
}

func frame(message *sinkv1.HandleLargeTransactionRequest) (*Raw, error) {
	size := proto.Size(message)
	var failed error
	raw := NewRaw(size, func(dst []byte) []byte {
		full, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(dst, message)
		if failed = err; err != nil {
			return dst[:size]
		}
		return full
	})
	if failed != nil {
		raw.Free()
		return nil, ErrNotUTF8 // the only fault that these messages can have
	}
	return raw, nil
}

// Changes queues consecutive changes, the first of which has this ordinal. Frames then
// gives out what they make. The changes must stay valid until Frame returned nil.
func (e *LargeEncoder) Changes(changes []core.Change, first uint64) {
	e.queue, e.next = changes, first
}

// Frame is the next frame of the queued changes, a relation or some changes, or nil
// when all were given out.
func (e *LargeEncoder) Frame() (*Raw, error) {
	if len(e.queue) == 0 {
		return nil, nil
	}
	body, count, err := e.measureFrame()
	if err != nil {
		return nil, err
	}
	if e.told < len(e.table.list) {
		return e.relation()
	}
	first := e.next
	inner := sizeNumber(first) + body
	raw := NewRaw(sizeBytes(inner), func(dst []byte) []byte {
		dst = appendNumber(appendHead(dst, frameChanges, inner), 1, first)
		for i := range count {
			dst = appendHead(dst, 2, e.plan[i].body)
			dst = e.table.appendChange(dst, &e.queue[i], e.plan[i])
		}
		return dst
	})
	e.queue, e.next = e.queue[count:], e.next+uint64(count)
	return raw, nil
}

// measureFrame plans as many queued changes as fit into a frame, at least one. It stops
// behind the first change of a relation that was not told yet.
func (e *LargeEncoder) measureFrame() (body, count int, err error) {
	e.plan = e.plan[:0]
	for i := range e.queue {
		planned, err := e.table.measureChange(&e.queue[i])
		if err != nil {
			return 0, 0, err
		}
		size := sizeBytes(planned.body)
		if count > 0 && body+size > e.target {
			break
		}
		e.plan = append(e.plan, planned)
		body += size
		count++
		if e.told < len(e.table.list) {
			break
		}
	}
	return body, count, nil
}

func (e *LargeEncoder) relation() (*Raw, error) {
	shape, err := encodeRelation(e.table.list[e.told])
	if err != nil {
		return nil, err
	}
	e.told++
	return NewRaw(sizeBytes(len(shape)), func(dst []byte) []byte {
		return append(appendHead(dst, frameRelation, len(shape)), shape...)
	}), nil
}

func timeToProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
