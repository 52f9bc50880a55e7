package badsinks

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func refusedCode(err error) codes.Code { return status.Code(err) }

// ordered is the order in which changes take effect.
func (s *Sink) ordered(changes []*sinkv1.Change) []*sinkv1.Change {
	if s.is(MessagesLast) {
		slices.SortStableFunc(changes, func(a, b *sinkv1.Change) int {
			return int(a.GetOp()/sinkv1.ChangeOp_CHANGE_OP_MESSAGE) - int(b.GetOp()/sinkv1.ChangeOp_CHANGE_OP_MESSAGE)
		})
	}
	if !s.is(DeletesLast) || len(changes) != 3 {
		return changes
	}
	key := ""
	for _, c := range changes {
		row := c.GetNewRow()
		if row == nil {
			row = c.GetOldRow()
		}
		if row == nil || key != "" && key != string(row.GetValues()[0]) {
			return changes
		}
		key = string(row.GetValues()[0])
	}
	var first, last []*sinkv1.Change
	for _, c := range changes {
		if c.GetOp() == sinkv1.ChangeOp_CHANGE_OP_DELETE {
			last = append(last, c)
		} else {
			first = append(first, c)
		}
	}
	return append(first, last...)
}

// truncate removes every row of the tables, of snapshots too.
func (s *Sink) truncate(t *tx, rels []*sinkv1.Relation, c *sinkv1.Change, n *sinkv1.Counts) error {
	if c.GetTruncate() == nil {
		return invalid("no truncate")
	}
	for i, index := range c.GetTruncate().GetRelationIndexes() {
		if int(index) >= len(rels) && s.is(SkipsBadTruncate) {
			continue
		}
		if int(index) >= len(rels) {
			return invalid("relation_index is out of range")
		}
		if i > 0 && s.is(TruncatesFirstOnly) {
			continue
		}
		bucket := s.bucket(rels[index])
		for _, k := range t.keys(bucket) {
			if s.is(TruncateKeepsSnapshot) && t.get(bucket, k).(row).snapshot {
				continue
			}
			t.put(bucket, k, nil)
		}
		add(&n.Truncated, 1)
	}
	return nil
}

func (s *Sink) remove(t *tx, r *sinkv1.Relation, c *sinkv1.Change, n *sinkv1.Counts) error {
	old, err := s.read(r, c.GetOldRow())
	if err != nil {
		return err
	}
	bucket := s.bucket(r)
	if s.is(DeletesAllEqual) && len(keyOf(r)) == 0 {
		for _, k := range t.keys(bucket) {
			if s.same(t.get(bucket, k).(row), old) {
				t.put(bucket, k, nil)
			}
		}
		return nil
	}
	at, err := s.find(t, r, old)
	if err != nil {
		return err
	}
	if at == "" {
		if s.is(MissingIsError) && len(t.keys(bucket)) == 0 {
			return precondition(sinkv1.ErrorReason_ERROR_REASON_UNIT_REJECTED)
		}
		return nil
	}
	if s.is(AbsentIsCondition) && !s.same(t.get(bucket, at).(row), old) {
		return nil
	}
	t.put(bucket, at, nil)
	add(&n.Deleted, 1)
	return nil
}

// update is S-402 to S-404.
func (s *Sink) update(t *tx, stream string, r *sinkv1.Relation, c *sinkv1.Change, now *tuple, n *sinkv1.Counts) error {
	find := now
	if c.GetOldRowKind() != sinkv1.OldRowKind_OLD_ROW_KIND_NONE {
		var err error
		if find, err = s.read(r, c.GetOldRow()); err != nil {
			return err
		}
	}
	at, err := s.find(t, r, find)
	if err != nil {
		return err
	}
	if at == "" {
		add(&n.Inserted, 1)
		switch {
		case s.is(UpdateNeedsRow) && !strings.Contains(now.kinds, "u") && len(t.keys(s.bucket(r))) == 0:
			return nil
		}
		return s.upsert(t, stream, r, now, nil, "")
	}
	add(&n.Updated, 1)
	old := t.get(s.bucket(r), at).(row)
	if !(s.is(KeyChangeKeepsOld) && c.GetOldRowKind() == sinkv1.OldRowKind_OLD_ROW_KIND_KEY && len(keyOf(r)) > 1) {
		t.put(s.bucket(r), at, nil)
	}
	rekeyed := c.GetOldRowKind() == sinkv1.OldRowKind_OLD_ROW_KIND_KEY
	taken := false
	if k, err := keyText(s.key(r), now); err == nil {
		k = s.joined(k, s.key(r), now)
		taken = t.get(s.bucket(r), k) != nil
	}
	if rekeyed && taken && s.is(KeyChangeFromNew) {
		return s.upsert(t, stream, r, now, nil, "")
	}
	if rekeyed && s.is(KeyChangeForgets) && strings.Count(now.kinds, "u") > 1 {
		return s.upsert(t, stream, r, now, &row{}, at)
	}
	return s.upsert(t, stream, r, now, &old, at)
}

// upsert stores a streamed row: what is carried, and the rest from old, or from the row
// that is at the key.
func (s *Sink) upsert(t *tx, stream string, r *sinkv1.Relation, now *tuple, old *row, at string) error {
	bucket := s.bucket(r)
	k := at
	if key := s.key(r); len(key) > 0 {
		var err error
		if k, err = keyText(key, now); err != nil {
			return err
		}
		k = s.joined(k, key, now)
	} else if k == "" {
		k = strconv.FormatInt(s.rowSeq.Add(1), 10)
	}
	there, found := t.get(bucket, k).(row)
	if old == nil && found {
		old = &there
	}
	next := row{columns: map[string]value{}, generation: t.stream(stream).generation}
	if s.is(GenerationNotTouched) {
		next.generation = 0
	}
	if old != nil {
		maps.Copy(next.columns, old.columns)
		if s.is(OriginNotFlipped) {
			next.snapshot = old.snapshot
		}
	}
	for i, name := range now.names {
		if v, carried := s.cell(now, i); carried {
			was := next.columns[name]
			kept := s.is(CoalescesNull) && v.null && at == "" && was.text != nil
			strange := s.is(DeclinesSilently) && strings.HasPrefix(r.GetColumns()[i].GetTypeName(), declinedType)
			if kept || strange || s.dropped(bucket, name) || s.is(CutsColumns) && i >= 1000 {
				continue
			}
			next.columns[name] = v
		}
	}
	if s.is(ToastByFirstRow) {
		s.firstRowPattern(bucket, now, &next)
	}
	t.put(bucket, k, next)
	return nil
}

// firstRowPattern leaves alone what the first row of its table left alone.
func (s *Sink) firstRowPattern(bucket string, now *tuple, next *row) {
	pattern, known := s.memory["pattern "+bucket].(string)
	if !known && strings.Contains(now.kinds, "u") {
		s.memory["pattern "+bucket] = now.kinds
		return
	}
	for i, name := range now.names {
		if known && i < len(pattern) && pattern[i] == 'u' && now.kinds[i] == 't' {
			delete(next.columns, name)
		}
	}
}

// dropped reports whether a sink that fixed its columns once ignores this one.
func (s *Sink) dropped(bucket, name string) bool {
	if !s.is(DropsNewColumn) {
		return false
	}
	known := s.layouts[bucket]
	return len(known) == 2 && !slices.Contains(known, name)
}

// shape takes a relation's shape, or refuses it: a column of another type is declined.
func (s *Sink) shape(t *tx, r *sinkv1.Relation) error {
	if s.is(DropsNewColumn) && s.layouts[s.bucket(r)] == nil {
		for _, c := range r.GetColumns() {
			s.layouts[s.bucket(r)] = append(s.layouts[s.bucket(r)], c.GetName())
		}
	}
	for _, c := range r.GetColumns() {
		if strings.HasPrefix(c.GetTypeName(), declinedType) {
			if s.is(DeclinesSilently) {
				return nil
			}
			return precondition(sinkv1.ErrorReason_ERROR_REASON_SCHEMA_DECLINED)
		}
	}
	return nil
}

// declinedType is a type that this sink cannot take.
const declinedType = "unmappable"

// representable refuses what the store has no true form for: nothing, but for a sink
// that says so with the value.
func (s *Sink) representable(now *tuple) error {
	for i := range now.kinds {
		if now.kinds[i] != 't' {
			continue
		}
		if text := string(now.values[i]); s.is(DeclinesAndRounds) && now.relation.GetColumns()[i].GetTypeName() == "numeric" && strings.Trim(text, "-0123456789.") != "" {
			return refuse(codes.OutOfRange, sinkv1.ErrorReason_ERROR_REASON_VALUE_UNREPRESENTABLE)
		}
		if s.is(LeaksValues) && bytes.Contains(now.values[i], []byte("impossible")) {
			return status.Error(codes.OutOfRange, fmt.Sprintf("cannot store %q", now.values[i]))
		}
	}
	return nil
}

// leaky makes of a refusal what some sinks make of it.
func (s *Sink) leaky(err error) error {
	switch {
	case s.is(HugeErrors) && refusedCode(err) == codes.InvalidArgument:
		return status.Error(refusedCode(err), strings.Repeat("x", 4096))
	case s.is(LeaksValues) && refusedCode(err) == codes.InvalidArgument:
		return status.Error(codes.InvalidArgument, "bad row: "+s.lastText())
	}
	return err
}

// lastText is the newest text that this sink has seen.
func (s *Sink) lastText() string {
	text, _ := s.memory["text"].(string)
	return text
}
