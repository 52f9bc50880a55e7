package wire

import (
	"google.golang.org/protobuf/proto"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// LargeDecoder reads the frames of one large transaction and holds their order and
// counts against the contract (S-603, S-604, S-606, S-607).
type LargeDecoder struct {
	relations RelationSource
	decoded
	begun, committed bool
	seen             uint64
}

// NewLargeDecoder makes a decoder for one stream.
func NewLargeDecoder(cache *RelationCache) *LargeDecoder { return &LargeDecoder{relations: cache} }

// Committed reports whether the commit frame was read.
func (d *LargeDecoder) Committed() bool { return d.committed }

// Begin reads the first frame. The error is a *FieldError.
func (d *LargeDecoder) Begin(message []byte) (core.LargeBegin, error) {
	id, body, err := d.frame(message)
	if err != nil {
		return core.LargeBegin{}, err
	}
	if id != frameBegin {
		return core.LargeBegin{}, broken("frame", "not begin, which has to be the first")
	}
	var m sinkv1.LargeBegin
	if proto.Unmarshal(body, &m) != nil {
		return core.LargeBegin{}, broken("begin", problemNotProtobuf)
	}
	begin := core.LargeBegin{XID: m.GetXid(), CommitLSN: core.LSN(m.GetCommitLsn()), Origin: m.GetOrigin()}
	if err := callFromProto(&begin.Call, m.GetContext()); err != nil {
		return begin, err.under("begin.context")
	}
	expected, lsnErr := lsnFromProto("begin.expected_checkpoint", m.ExpectedCheckpoint)
	if lsnErr != nil {
		return begin, lsnErr
	}
	begin.Expected = expected
	if m.GetCommitLsn() == 0 {
		return begin, broken("begin.commit_lsn", problemMissing)
	}
	if m.GetCommitTime() != nil {
		if m.GetCommitTime().CheckValid() != nil {
			return begin, broken("begin.commit_time", "out of range")
		}
		begin.CommitTime = m.GetCommitTime().AsTime()
	}
	d.begun = true
	return begin, nil
}

// Next reads a later frame. It reports false for a relation frame, which has nothing to
// show. The error is a *FieldError; what it returns aliases the message.
func (d *LargeDecoder) Next(message []byte) (core.LargeFrame, bool, error) {
	id, body, err := d.frame(message)
	if err != nil {
		return core.LargeFrame{}, false, err
	}
	if d.committed {
		return core.LargeFrame{}, false, broken("frame", "after the commit frame")
	}
	switch id {
	case frameRelation:
		if len(d.table) >= core.RelationsMax {
			return core.LargeFrame{}, false, broken("relation", "more than %d relations", core.RelationsMax)
		}
		relation, err := d.relations.relation(body)
		if err != nil {
			return core.LargeFrame{}, false, err.under("relation")
		}
		d.table = append(d.table, relation)
		return core.LargeFrame{}, false, nil
	case frameSchemaChange:
		return d.schemaChange(body)
	case frameChanges:
		return d.readChanges(body)
	case frameCommit:
		return d.commit(body)
	}
	return core.LargeFrame{}, false, broken("frame", "a second begin")
}

// frame finds the one frame in a message. One that is unset, unknown or given twice is
// an error: a message with two frames is nothing that a sidecar would send.
func (*LargeDecoder) frame(message []byte) (id int, body []byte, err error) {
	for f := (fields{rest: message}); f.more(); {
		if !f.next() {
			return 0, nil, broken("frame", problemNotProtobuf)
		}
		if f.id < frameBegin || f.id > frameCommit || !f.isBytes(f.id) {
			continue
		}
		if id != 0 {
			return 0, nil, broken("frame", "more than one in a message")
		}
		id, body = int(f.id), f.body
	}
	if id == 0 {
		return 0, nil, broken("frame", "unset or unknown")
	}
	return id, body, nil
}

func (d *LargeDecoder) schemaChange(body []byte) (core.LargeFrame, bool, error) {
	var m sinkv1.SchemaChange
	if proto.Unmarshal(body, &m) != nil {
		return core.LargeFrame{}, false, broken("schema_change", problemNotProtobuf)
	}
	change, err := schemaChangeFromProto(&m)
	if err != nil {
		return core.LargeFrame{}, false, err.under("schema_change")
	}
	return core.LargeFrame{SchemaChange: change}, true, nil
}

func (d *LargeDecoder) readChanges(body []byte) (core.LargeFrame, bool, error) {
	first, err := d.largeChanges(body)
	if err == errUnusual {
		usual, layoutErr := rewrite(body, &sinkv1.LargeChanges{})
		if layoutErr != nil {
			return core.LargeFrame{}, false, layoutErr
		}
		first, err = d.largeChanges(usual)
	}
	switch {
	case err != nil:
		return core.LargeFrame{}, false, err.under("changes")
	case first != d.seen:
		return core.LargeFrame{}, false, broken("changes.first_change_index", "not the number of changes before")
	}
	d.seen += uint64(len(d.changes))
	return core.LargeFrame{Changes: d.changes, FirstChangeIndex: first}, true, nil
}

func (d *LargeDecoder) largeChanges(body []byte) (first uint64, err *FieldError) {
	clear(d.changes)
	d.changes = d.changes[:0]
	for f := (fields{rest: body}); f.more(); {
		if !f.next() {
			return 0, broken("", problemNotProtobuf)
		}
		switch {
		case f.isBytes(2):
			if err := d.change(f.body); err != nil {
				if err == errUnusual {
					return 0, err
				}
				return 0, err.underIndex("changes", len(d.changes))
			}
		case f.isNumber(1):
			first = f.number
		}
	}
	return first, nil
}

func (d *LargeDecoder) commit(body []byte) (core.LargeFrame, bool, error) {
	var m sinkv1.LargeCommit
	if proto.Unmarshal(body, &m) != nil {
		return core.LargeFrame{}, false, broken("commit", problemNotProtobuf)
	}
	checkpoint, err := lsnFromProto("commit.checkpoint_lsn", m.CheckpointLsn)
	switch {
	case err != nil:
		return core.LargeFrame{}, false, err
	case m.GetEndLsn() == 0:
		return core.LargeFrame{}, false, broken("commit.end_lsn", problemMissing)
	case m.GetChangeCount() != d.seen:
		return core.LargeFrame{}, false, broken("commit.change_count", "not the number of changes sent")
	}
	d.committed = true
	return core.LargeFrame{Commit: &core.LargeCommit{
		EndLSN: core.LSN(m.GetEndLsn()), Checkpoint: checkpoint,
		ChangeCount: m.GetChangeCount(), ResumeState: m.ResumeState,
	}}, true, nil
}
