package badsinks

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// value is one stored value.
type value struct {
	null bool
	text []byte
}

// row is one stored row. Rows are never changed in place. A column that is missing was
// never sent.
type row struct {
	columns    map[string]value
	snapshot   bool
	generation uint64
}

func bucketOf(r *sinkv1.Relation) string {
	return "t:" + r.GetSchemaName() + "\x00" + r.GetTableName()
}

// bucket is where this sink keeps a relation's rows.
func (s *Sink) bucket(r *sinkv1.Relation) string {
	if s.is(FoldsNames) {
		return strings.ToLower(bucketOf(r))
	}
	return bucketOf(r)
}

// key is the key of a row, as this sink makes it.
func (s *Sink) key(r *sinkv1.Relation) []int {
	if k := keyOf(r); s.is(FirstKeyColumn) && len(k) > 1 {
		return k[:1]
	}
	if s.is(KeyIsPrimary) {
		return identityOf(r, true)
	}
	return keyOf(r)
}

// keyOf are the columns that tell rows apart: the identity, or the primary key where that
// is the whole row or nothing.
func keyOf(r *sinkv1.Relation) []int {
	return identityOf(r, r.GetReplicaIdentity() == sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL ||
		r.GetReplicaIdentity() == sinkv1.ReplicaIdentity_REPLICA_IDENTITY_NOTHING)
}

// identityOf are the columns of the identity, or those of the primary key.
func identityOf(r *sinkv1.Relation, whole bool) []int {
	var key []int
	for i, c := range r.GetColumns() {
		if whole && c.PrimaryKeyPosition != nil || !whole && c.GetIdentity() {
			key = append(key, i)
		}
	}
	return key
}

// tuple is a row of the wire, checked.
type tuple struct {
	relation *sinkv1.Relation
	names    []string
	kinds    string
	values   [][]byte
}

// read checks a row against its relation: V-103, V-104.
func (s *Sink) read(r *sinkv1.Relation, in *sinkv1.Row) (*tuple, error) {
	if in == nil {
		return nil, invalid("a row is missing")
	}
	if len(in.GetKinds()) != len(r.GetColumns()) || len(in.GetValues()) != len(r.GetColumns()) {
		if !s.is(AnyLength) || len(in.GetKinds()) > len(r.GetColumns()) || len(in.GetValues()) > len(r.GetColumns()) {
			return nil, invalid("a row does not fit its relation")
		}
	}
	if strings.Trim(in.GetKinds(), "tnua") != "" && !s.is(AnyLetter) {
		return nil, invalid("an unknown letter")
	}
	t := &tuple{relation: r, kinds: in.GetKinds(), values: in.GetValues()}
	for len(t.kinds) < len(r.GetColumns()) {
		t.kinds += "a"
	}
	for len(t.values) < len(r.GetColumns()) {
		t.values = append(t.values[:len(t.values):len(t.values)], nil)
	}
	t.names = s.layout(r)
	return t, nil
}

// layout gives the columns' names by this very relation.
func (s *Sink) layout(r *sinkv1.Relation) []string {
	names := make([]string, len(r.GetColumns()))
	for i, c := range r.GetColumns() {
		names[i] = c.GetName()
	}
	if s.is(CachedLayout) {
		if known := s.layouts[s.bucket(r)]; len(known) == len(names) {
			return known
		}
		s.layouts[s.bucket(r)] = names
	}
	return names
}

// cell gives what a letter stores.
func (s *Sink) cell(t *tuple, i int) (value, bool) {
	switch t.kinds[i] {
	case 't':
		return s.stored(t.relation.GetColumns()[i], t.values[i])
	case 'n':
		if s.is(NullIsEmpty) {
			return value{}, true
		}
		return value{null: true}, true
	case 'u':
		others := strings.Trim(t.kinds[1:], "u")
		if s.is(ToastAsNull) || s.is(AllKeptAsNull) && others == "" && len(t.kinds) > 3 {
			return value{null: true}, true
		}
	case 'a':
		if s.is(AbsentAsNull) {
			return value{null: true}, true
		}
	}
	return value{}, false
}

// find gives the key under which a row is stored, "" if there is none.
func (s *Sink) find(t *tx, r *sinkv1.Relation, w *tuple) (string, error) {
	bucket := s.bucket(r)
	if key := s.key(r); len(key) > 0 {
		k, err := keyText(key, w)
		if err != nil {
			return "", err
		}
		k = s.joined(k, key, w)
		if stored := t.get(bucket, k); stored == nil {
			return "", nil
		}
		return k, nil
	}
	for _, k := range t.keys(bucket) {
		if s.same(t.get(bucket, k).(row), w) {
			return k, nil
		}
	}
	return "", nil
}

// same compares a keyless row with a full old one.
func (s *Sink) same(r row, w *tuple) bool {
	for i, name := range w.names {
		if w.kinds[i] == 'a' && !s.is(AbsentIsCondition) {
			continue
		}
		have, known := r.columns[name]
		alike := s.is(KeylessEmptyIsNull) && known && len(have.text) == 0 && len(w.values[i]) == 0
		if alike {
			continue
		}
		if !known || have.null != (w.kinds[i] != 't') || !bytes.Equal(have.text, w.values[i]) {
			return false
		}
	}
	return true
}

func keyText(key []int, w *tuple) (string, error) {
	var k strings.Builder
	for _, i := range key {
		if i >= len(w.kinds) || w.kinds[i] != 't' {
			return "", invalid("a row without its key")
		}
		fmt.Fprintf(&k, "%d:%s", len(w.values[i]), w.values[i])
	}
	return k.String(), nil
}

// apply applies one transaction's changes in their order.
func (s *Sink) apply(ctx context.Context, t *tx, stream string, rels []*sinkv1.Relation, x *sinkv1.Transaction, n *sinkv1.Counts) error {
	if s.variant.Kind == sinkv1.SinkKind_SINK_KIND_APPEND_LOG {
		return s.logTransaction(t, stream, rels, x, 0)
	}
	for i, c := range s.ordered(x.GetChanges()) {
		if err := s.work(ctx, i); err != nil {
			return err
		}
		if err := s.change(t, stream, rels, x, i, c, n); err != nil {
			if s.is(SkipsBadChange) && refusedCode(err) == codes.InvalidArgument || s.skipped(c, err) {
				continue
			}
			return err
		}
		if err := s.thousand(t, i); err != nil {
			return err
		}
	}
	return nil
}

func add(n **uint64, by uint64) {
	sum := by
	if *n != nil {
		sum += **n
	}
	*n = &sum
}

func (s *Sink) change(t *tx, stream string, rels []*sinkv1.Relation, x *sinkv1.Transaction, at int, c *sinkv1.Change, n *sinkv1.Counts) error {
	switch c.GetOp() {
	case sinkv1.ChangeOp_CHANGE_OP_TRUNCATE:
		return s.truncate(t, rels, c, n)
	case sinkv1.ChangeOp_CHANGE_OP_MESSAGE:
		if c.GetMessage() == nil {
			return invalid("no message")
		}
		return s.message(t, stream, x.GetCommitLsn(), uint64(at), c.GetMessage())
	case sinkv1.ChangeOp_CHANGE_OP_INSERT, sinkv1.ChangeOp_CHANGE_OP_UPDATE, sinkv1.ChangeOp_CHANGE_OP_DELETE:
	default:
		if s.is(IgnoresUnknownOp) {
			return nil
		}
		return invalid("an unknown op")
	}
	if int(c.GetRelationIndex()) >= len(rels) {
		return invalid("relation_index is out of range")
	}
	r := rels[c.GetRelationIndex()]
	if err := s.shape(t, r); err != nil {
		return err
	}
	if c.GetOp() == sinkv1.ChangeOp_CHANGE_OP_DELETE {
		return s.remove(t, r, c, n)
	}
	now, err := s.read(r, c.GetNewRow())
	if err != nil {
		return err
	}
	if err := s.representable(now); err != nil {
		return err
	}
	if c.GetOp() == sinkv1.ChangeOp_CHANGE_OP_INSERT {
		add(&n.Inserted, 1)
		if s.is(HoleIsError) && strings.Contains(now.kinds, "u") {
			return precondition(sinkv1.ErrorReason_ERROR_REASON_UNIT_REJECTED)
		}
		return s.upsert(t, stream, r, now, nil, "")
	}
	return s.update(t, stream, r, c, now, n)
}
