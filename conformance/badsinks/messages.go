package badsinks

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// entry is one entry of a log: of an append log, or of the messages that a mirror keeps.
type entry = *sinkv1.LogEntry

// appendEntry writes the next entry of a stream's log.
func (s *Sink) appendEntry(t *tx, stream string, e entry) {
	t.put("l:"+stream, fmt.Sprintf("%020d", s.rowSeq.Add(1)), e)
}

// message keeps a message in the log of its stream. A mirror keeps messages alone there,
// and in the table "messages" of the schema that the prefix names, for a probe.
func (s *Sink) message(t *tx, stream string, lsn, ordinal uint64, m *sinkv1.LogicalMessage) error {
	s.appendEntry(t, stream, &sinkv1.LogEntry{
		CommitLsn: lsn, Ordinal: ordinal, Op: sinkv1.LogOp_LOG_OP_MESSAGE, Message: s.messageKept(m),
	})
	return nil
}

func (s *Sink) messageKept(m *sinkv1.LogicalMessage) *sinkv1.LogicalMessage {
	if s.is(MessageAsText) {
		return &sinkv1.LogicalMessage{
			Prefix: []byte(strings.ToValidUTF8(string(m.GetPrefix()), "?")), Content: []byte(strings.ToValidUTF8(string(m.GetContent()), "?")),
		}
	}
	if s.is(MessageCut) && len(m.GetContent()) > cutAt {
		return &sinkv1.LogicalMessage{Prefix: m.GetPrefix(), Content: m.GetContent()[:cutAt]}
	}
	return m
}

// HandleMessage keeps a message that stands alone.
func (s *Sink) HandleMessage(_ context.Context, q *sinkv1.HandleMessageRequest) (*sinkv1.HandleMessageResponse, error) {
	if err := s.missing(sinkv1.Capability_CAPABILITY_MESSAGE); err != nil {
		return nil, err
	}
	t := s.store.begin()
	defer t.end()
	row, err := s.admitOther(t, q.GetContext(), s.expects(MessageNoGap, q.ExpectedCheckpoint))
	if err != nil {
		return nil, err
	}
	if q.GetMessage() == nil {
		return nil, invalid("no message")
	}
	owned := q.GetContext().GetCheckpointOwner() == sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SINK
	if owned && row.position != nil && q.GetCheckpointLsn() <= *row.position && !s.is(MessageAgain) {
		return &sinkv1.HandleMessageResponse{CheckpointLsn: q.CheckpointLsn}, nil
	}
	if err := s.message(t, q.GetContext().GetStreamId(), q.GetMessage().GetLsn(), 0, q.GetMessage()); err != nil {
		return nil, err
	}
	if err := s.advance(t, q.GetContext(), q.CheckpointLsn, q.ResumeState); err != nil {
		return nil, err
	}
	t.apart = s.is(MessageTwoCommits)
	if err := t.commit(); err != nil {
		return nil, storeError(err)
	}
	return &sinkv1.HandleMessageResponse{CheckpointLsn: q.CheckpointLsn}, nil
}

// admitOther is admit of the calls that are no transactions.
func (s *Sink) admitOther(t *tx, c *sinkv1.StreamContext, expected *uint64) (streamRow, error) {
	if s.is(FencesTransactionsOnly) && t.stream(c.GetStreamId()).epoch > c.GetEpoch() {
		return t.stream(c.GetStreamId()), nil
	}
	return s.admit(t, c, expected)
}

// logTransaction appends one entry per change.
func (s *Sink) logTransaction(t *tx, stream string, rels []*sinkv1.Relation, x *sinkv1.Transaction, from int) error {
	changes := x.GetChanges()
	if s.is(LogByTable) {
		changes = byTable(changes)
	}
	for i, c := range changes {
		e := &sinkv1.LogEntry{CommitLsn: x.GetCommitLsn(), Ordinal: uint64(from + i), Op: sinkv1.LogOp(c.GetOp())}
		switch c.GetOp() {
		case sinkv1.ChangeOp_CHANGE_OP_TRUNCATE:
			if err := s.logTruncate(t, stream, rels, c, e); err != nil {
				return err
			}
			continue
		case sinkv1.ChangeOp_CHANGE_OP_MESSAGE:
			e.Message = s.messageKept(c.GetMessage())
			s.appendEntry(t, stream, e)
			continue
		case sinkv1.ChangeOp_CHANGE_OP_INSERT, sinkv1.ChangeOp_CHANGE_OP_UPDATE, sinkv1.ChangeOp_CHANGE_OP_DELETE:
		default:
			return invalid("an unknown op")
		}
		if int(c.GetRelationIndex()) >= len(rels) {
			return invalid("relation_index is out of range")
		}
		in := c.GetNewRow()
		if c.GetOp() == sinkv1.ChangeOp_CHANGE_OP_DELETE {
			in = c.GetOldRow()
		}
		if err := s.logRow(t, stream, rels[c.GetRelationIndex()], in, e); err != nil {
			return err
		}
	}
	return nil
}

// logRow appends an entry with a row, its letters as they came.
func (s *Sink) logRow(t *tx, stream string, r *sinkv1.Relation, in *sinkv1.Row, e entry) error {
	if err := s.shape(t, r); err != nil {
		return err
	}
	w, err := s.read(r, in)
	if err != nil {
		return err
	}
	e.SchemaName, e.TableName, e.Columns = r.GetSchemaName(), r.GetTableName(), w.names
	kept := &sinkv1.Row{Kinds: w.kinds}
	for i := range w.kinds {
		v, _ := s.cell(w, i)
		kept.Values = append(kept.Values, v.text)
	}
	if s.is(LogToastAsNull) {
		kept.Kinds = strings.ReplaceAll(kept.Kinds, "u", "n")
	}
	e.Row = kept
	s.appendEntry(t, stream, e)
	return nil
}

func (s *Sink) logTruncate(t *tx, stream string, rels []*sinkv1.Relation, c *sinkv1.Change, e entry) error {
	if c.GetTruncate() == nil {
		return invalid("no truncate")
	}
	for i, index := range c.GetTruncate().GetRelationIndexes() {
		if i > 0 && s.is(LogTruncatesFirst) {
			break
		}
		if int(index) >= len(rels) {
			return invalid("relation_index is out of range")
		}
		r := rels[index]
		s.appendEntry(t, stream, &sinkv1.LogEntry{
			CommitLsn: e.GetCommitLsn(), Ordinal: e.GetOrdinal(), Op: e.GetOp(),
			SchemaName: r.GetSchemaName(), TableName: r.GetTableName(),
		})
	}
	return nil
}

// byTable is the order of a sink that writes table by table.
func byTable(changes []*sinkv1.Change) []*sinkv1.Change {
	groups := map[string][]*sinkv1.Change{}
	var order []string
	for _, c := range changes {
		k := strconv.Itoa(int(c.GetRelationIndex()))
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], c)
	}
	var out []*sinkv1.Change
	for _, k := range order {
		out = append(out, groups[k]...)
	}
	return out
}
