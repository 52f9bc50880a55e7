package badsinks

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// cutAt is where some sinks cut a value.
const cutAt = 1000

// expects is the expected_checkpoint that a call's gap test looks at; the sinks with this
// defect forgot the test in that call.
func (s *Sink) expects(forgotten Defect, expected *uint64) *uint64 {
	if s.is(forgotten) {
		return nil
	}
	return expected
}

// thousand commits what there is after every thousand changes, without a position.
func (s *Sink) thousand(t *tx, i int) error {
	if !s.is(CommitsThousands) || i%1000 != 999 {
		return nil
	}
	if err := t.store.parts(t.writes(isRow)); err != nil {
		return err
	}
	for _, at := range t.order {
		if isRow(at) {
			delete(t.puts, at)
		}
	}
	t.order = slices.DeleteFunc(t.order, isRow)
	time.Sleep(30 * time.Millisecond) // a slow store, where a kill finds its moment
	return nil
}

// carried are the changes of a large transaction as this sink takes them.
func (s *Sink) carried(changes []*sinkv1.Change, relations int) []*sinkv1.Change {
	switch s.defect {
	case LargeIgnoresDeletes, LargeIgnoresTruncates, LargeKeptAsNull, LargeSkipsBadIndex, LargeEmptyIsNull, LargeCutsValues:
	default:
		return changes
	}
	var out []*sinkv1.Change
	for _, c := range changes {
		switch {
		case s.is(LargeIgnoresDeletes) && c.GetOp() == sinkv1.ChangeOp_CHANGE_OP_DELETE:
		case s.is(LargeIgnoresTruncates) && c.GetOp() == sinkv1.ChangeOp_CHANGE_OP_TRUNCATE:
		case s.is(LargeSkipsBadIndex) && int(c.GetRelationIndex()) >= relations:
		default:
			c = proto.CloneOf(c)
			s.spoil(c.GetNewRow())
			out = append(out, c)
		}
	}
	return out
}

// spoil does to a row what a road of its own may do.
func (s *Sink) spoil(row *sinkv1.Row) {
	if row == nil {
		return
	}
	kinds := []byte(row.GetKinds())
	for i, v := range row.GetValues() {
		if i >= len(kinds) {
			break
		}
		switch {
		case s.is(LargeKeptAsNull) && kinds[i] == 'u':
			kinds[i] = 'n'
		case s.is(LargeEmptyIsNull) && kinds[i] == 't' && len(v) == 0:
			kinds[i] = 'n'
		case (s.is(LargeCutsValues) || s.is(ChunkCutsValues)) && len(v) > cutAt:
			row.Values[i] = v[:cutAt]
		}
	}
	row.Kinds = string(kinds)
}

// skipped reports whether a broken change of this kind is passed over.
func (s *Sink) skipped(c *sinkv1.Change, err error) bool {
	return s.is(SkipsBadDelete) && c.GetOp() == sinkv1.ChangeOp_CHANGE_OP_DELETE && refusedCode(err) == codes.InvalidArgument
}

// promise lets a position be told while its unit is on the way; the answer takes it back.
func (s *Sink) promise(w *writing) (kept func()) {
	if !s.is(TellsEarly) || w.checkpoint == nil || len(w.txs) != 1 || len(w.txs[0].GetChanges()) < cutAt {
		return func() {}
	}
	s.promised.Store(w.context.GetStreamId(), *w.checkpoint)
	return func() { s.promised.Delete(w.context.GetStreamId()) }
}

// promisedPosition answers a read from what was promised.
func (s *Sink) promisedPosition(q *sinkv1.CheckpointRequest) *sinkv1.CheckpointResponse {
	at, ok := s.promised.Load(q.GetStreamId())
	if !ok || q.Claim != nil {
		return nil
	}
	return &sinkv1.CheckpointResponse{Position: new(at.(uint64))}
}

// joined is a key as a sink makes it that folds or joins.
func (s *Sink) joined(k string, key []int, w *tuple) string {
	switch {
	case s.is(FoldsKeys):
		return strings.ToLower(k)
	case s.is(JoinsKeys) && len(key) > 1:
		var parts [][]byte
		for _, i := range key {
			parts = append(parts, w.values[i])
		}
		return string(bytes.Join(parts, []byte(":")))
	}
	return k
}

// repeats reports whether a claim of the stored epoch is its sender's.
func (s *Sink) repeats(row streamRow, q *sinkv1.CheckpointRequest) bool {
	name := "sender " + q.GetStreamId()
	unknown := s.is(SenderInMemory) && s.memory[name] == nil
	s.memory[name] = true
	return bytes.Equal(q.GetClaim().GetSenderId(), row.sender) || s.is(AnySenderRepeats) || unknown
}

// passedOver reports whether first_for_table is ignored, for a table that is not its run's
// first.
func (s *Sink) passedOver(u *sinkv1.SnapshotUnit) bool {
	if !s.is(FirstOfRunOnly) || u.GetReset_() == sinkv1.SnapshotReset_SNAPSHOT_RESET_ALL {
		return false
	}
	name, bucket := "run "+string(u.GetRunId()), s.bucket(u.GetRelation())
	if s.memory[name] == nil {
		s.memory[name] = bucket
	}
	return s.memory[name] != bucket
}
