package badsinks

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// HandleSnapshot stores one unit of a snapshot.
func (s *Sink) HandleSnapshot(_ context.Context, q *sinkv1.HandleSnapshotRequest) (*sinkv1.HandleSnapshotResponse, error) {
	if err := s.missing(sinkv1.Capability_CAPABILITY_SNAPSHOT); err != nil {
		return nil, err
	}
	t := s.store.begin()
	defer t.end()
	expected := q.ExpectedCheckpoint
	if s.is(SnapshotNoGap) {
		expected = nil
	}
	if _, err := s.admitOther(t, q.GetContext(), expected); err != nil {
		return nil, err
	}
	stream, u := q.GetContext().GetStreamId(), q.GetUnit()
	if u == nil {
		return nil, invalid("no unit")
	}
	counts, err := s.snapshotUnit(t, stream, u)
	if err != nil {
		return nil, storeError(s.leaky(err))
	}
	if s.is(TokenAfterChunk) {
		return &sinkv1.HandleSnapshotResponse{Counts: counts}, storeError(s.store.parts(t.writes(isRow), t.writes(isStream)))
	}
	if s.is(ClearThenInsert) {
		return &sinkv1.HandleSnapshotResponse{Counts: counts}, storeError(s.clearFirst(t))
	}
	if s.is(SweepsLater) && u.GetSweep() {
		return &sinkv1.HandleSnapshotResponse{Counts: counts}, storeError(s.clearLast(t))
	}
	if err := t.commit(); err != nil {
		return nil, storeError(err)
	}
	return &sinkv1.HandleSnapshotResponse{Counts: counts}, nil
}

// clearLast commits removals after everything else.
func (s *Sink) clearLast(t *tx) error {
	var removed, rest []write
	for _, w := range t.writes(nil) {
		if w.value == nil {
			removed = append(removed, w)
		} else {
			rest = append(rest, w)
		}
	}
	return s.store.parts(rest, removed)
}

// clearFirst commits removals before everything else.
func (s *Sink) clearFirst(t *tx) error {
	var removed, rest []write
	for _, w := range t.writes(nil) {
		if w.value == nil {
			removed = append(removed, w)
		} else {
			rest = append(rest, w)
		}
	}
	return s.store.parts(removed, rest)
}

// snapshotUnit is S-901 to S-906, or S-909.
func (s *Sink) snapshotUnit(t *tx, stream string, u *sinkv1.SnapshotUnit) (*sinkv1.Counts, error) {
	r := u.GetRelation()
	if s.is(EmptyUnitRefused) && (r == nil || len(u.GetRows()) == 0) && u.ProgressToken == nil {
		return nil, invalid("a unit without rows")
	}
	bare := u.ProgressToken == nil // what some defects need
	row := t.stream(stream)
	row.generation = max(row.generation, u.GetGeneration())
	switch {
	case s.is(TokenVolatile) && !bare:
		s.memory["token "+stream] = u.ProgressToken
	case !bare && s.is(BareTokenIgnored) && len(u.GetRows()) == 0:
	case !bare && !(s.is(StaleToken) && u.GetFirstForTable()):
		row.token = u.ProgressToken
		if s.is(TokenAsText) {
			row.token = []byte(strings.ToValidUTF8(string(row.token), "?"))
		}
	case bare && (s.is(TokenCleared) || s.is(ResetClearsToken) && u.GetFirstForTable()):
		row.token = nil
	}
	t.setStream(stream, row)
	if r == nil {
		if len(u.GetRows()) > 0 {
			return nil, invalid("rows without a relation")
		}
		return &sinkv1.Counts{}, nil
	}
	if err := s.shape(t, r); err != nil {
		return nil, err
	}
	if s.variant.Kind == sinkv1.SinkKind_SINK_KIND_APPEND_LOG {
		return s.snapshotLog(t, stream, u)
	}
	if u.GetFirstForTable() && !s.passedOver(u) {
		s.reset(t, u)
	}
	for i, in := range u.GetRows() {
		if s.is(LongChunkCut) && i >= 9 {
			break
		}
		if err := s.chunkRow(t, u, in); err != nil {
			return nil, err
		}
	}
	if u.GetLastForTable() && u.GetSweep() && !s.is(NoSweep) {
		s.sweep(t, u)
	}
	return &sinkv1.Counts{}, nil
}

// reset removes what an earlier attempt left.
func (s *Sink) reset(t *tx, u *sinkv1.SnapshotUnit) {
	bucket := s.bucket(u.GetRelation())
	all := u.GetReset_() == sinkv1.SnapshotReset_SNAPSHOT_RESET_ALL
	switch {
	case s.is(RedoClearsNothing) && !all:
		return
	case s.is(RedoWipesAll):
		all = true
	case s.is(ResetAllIsRows):
		all = false
	}
	buckets := []string{bucket}
	if s.is(RedoClearsEveryTable) {
		buckets = t.buckets(bucket[:strings.IndexByte(bucket, 0)+1])
	}
	for _, b := range buckets {
		for _, k := range t.keys(b) {
			if all || t.get(b, k).(row).snapshot {
				t.put(b, k, nil)
			}
		}
	}
}

// buckets are those with a prefix.
func (t *tx) buckets(prefix string) []string {
	t.store.mu.RLock()
	defer t.store.mu.RUnlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(t.store.state)), func(b string) bool {
		return !strings.HasPrefix(b, prefix)
	})
}

// chunkRow replaces the whole row at its key.
func (s *Sink) chunkRow(t *tx, u *sinkv1.SnapshotUnit, in *sinkv1.Row) error {
	if s.is(ChunkCutsValues) {
		s.spoil(in)
	}
	w, err := s.read(u.GetRelation(), in)
	if err != nil {
		return err
	}
	bucket := s.bucket(u.GetRelation())
	next := row{columns: map[string]value{}, snapshot: true, generation: u.GetGeneration()}
	k := ""
	if key := s.key(u.GetRelation()); len(key) > 0 {
		if k, err = keyText(key, w); err != nil {
			return err
		}
		k = s.joined(k, key, w)
	} else {
		k = "s" + strconv.FormatInt(s.rowSeq.Add(1), 10)
	}
	if there, found := t.get(bucket, k).(row); found {
		bare := u.ProgressToken == nil
		if s.is(ChunkInsertIfAbsent) && !there.snapshot && !bare {
			return nil
		}
		next.snapshot = there.snapshot || s.is(ChunkTakesOrigin)
		if s.is(ChunkMerges) && bare {
			maps.Copy(next.columns, there.columns)
		}
		if s.is(ChunkKeepsGeneration) {
			next.generation = there.generation
		}
	}
	for i, name := range w.names {
		v, carried := s.cell(w, i)
		if _, known := next.columns[name]; carried && !(known && s.is(ChunkMerges) && u.ProgressToken == nil) {
			next.columns[name] = v
		}
	}
	if s.is(ChunkDuplicates) && u.ProgressToken == nil {
		if _, found := t.get(bucket, k).(row); found {
			k += "'"
		}
	}
	t.put(bucket, k, next)
	return nil
}

// sweep removes the rows of older generations.
func (s *Sink) sweep(t *tx, u *sinkv1.SnapshotUnit) {
	bucket := s.bucket(u.GetRelation())
	for _, k := range t.keys(bucket) {
		if r := t.get(bucket, k).(row); r.generation < u.GetGeneration() && !(s.is(SweepsSnapshotRowsOnly) && !r.snapshot) {
			t.put(bucket, k, nil)
		}
	}
}

func (s *Sink) snapshotLog(t *tx, stream string, u *sinkv1.SnapshotUnit) (*sinkv1.Counts, error) {
	for _, in := range u.GetRows() {
		e := &sinkv1.LogEntry{Op: sinkv1.LogOp_LOG_OP_SNAPSHOT, RunId: u.GetRunId()}
		if s.is(LogSnapshotAsInsert) && u.ProgressToken == nil {
			e = &sinkv1.LogEntry{Op: sinkv1.LogOp_LOG_OP_INSERT}
		}
		if err := s.logRow(t, stream, u.GetRelation(), in, e); err != nil {
			return nil, err
		}
	}
	return &sinkv1.Counts{}, nil
}

// HandleSnapshotComplete stores the position of an initial snapshot.
func (s *Sink) HandleSnapshotComplete(_ context.Context, q *sinkv1.HandleSnapshotCompleteRequest) (*sinkv1.HandleSnapshotCompleteResponse, error) {
	if err := s.missing(sinkv1.Capability_CAPABILITY_SNAPSHOT_COMPLETE); err != nil {
		return nil, err
	}
	t := s.store.begin()
	defer t.end()
	row, err := s.admitOther(t, q.GetContext(), s.expects(CompletionNoGap, q.ExpectedCheckpoint))
	if err != nil {
		return nil, err
	}
	if s.is(CompletionOnce) && row.position != nil {
		return nil, precondition(sinkv1.ErrorReason_ERROR_REASON_UNIT_REJECTED)
	}
	if s.is(CompletionMovesNothing) {
		return &sinkv1.HandleSnapshotCompleteResponse{CheckpointLsn: q.CheckpointLsn}, nil
	}
	if err := s.advance(t, q.GetContext(), q.CheckpointLsn, q.ResumeState); err != nil {
		return nil, err
	}
	if s.is(BoundarySkipped) { // the next skip compares a start with this end
		row = t.stream(q.GetContext().GetStreamId())
		row.position = new(*row.position + 100)
		t.setStream(q.GetContext().GetStreamId(), row)
	}
	if err := t.commit(); err != nil {
		return nil, storeError(err)
	}
	return &sinkv1.HandleSnapshotCompleteResponse{CheckpointLsn: q.CheckpointLsn}, nil
}

// SnapshotProgress gives the token back.
func (s *Sink) SnapshotProgress(_ context.Context, q *sinkv1.SnapshotProgressRequest) (*sinkv1.SnapshotProgressResponse, error) {
	if err := s.missing(sinkv1.Capability_CAPABILITY_SNAPSHOT_PROGRESS); err != nil {
		return nil, err
	}
	t := s.store.begin()
	defer t.end()
	row := t.stream(q.GetStreamId())
	if s.foreign(row, q.GetSource()) && !s.is(ProgressForAnybody) {
		return nil, precondition(sinkv1.ErrorReason_ERROR_REASON_SOURCE_MISMATCH)
	}
	if token, ok := s.memory["token "+q.GetStreamId()].([]byte); ok {
		row.token = token
	}
	return &sinkv1.SnapshotProgressResponse{ProgressToken: row.token}, nil
}

// HandleSchemaChange takes a new shape, or declines it.
func (s *Sink) HandleSchemaChange(_ context.Context, q *sinkv1.HandleSchemaChangeRequest) (*sinkv1.HandleSchemaChangeResponse, error) {
	if err := s.missing(sinkv1.Capability_CAPABILITY_SCHEMA_CHANGE); err != nil {
		return nil, err
	}
	t := s.store.begin()
	defer t.end()
	if _, err := s.admitOther(t, q.GetContext(), q.ExpectedCheckpoint); err != nil {
		return nil, err
	}
	c := q.GetSchemaChange()
	if c.GetAfter() == nil {
		return nil, invalid("no shape")
	}
	if err := s.shape(t, c.GetAfter()); err != nil {
		return nil, err
	}
	if err := s.reshape(t, c); err != nil {
		return nil, err
	}
	if err := t.commit(); err != nil {
		return nil, storeError(err)
	}
	return &sinkv1.HandleSchemaChangeResponse{}, nil
}

// reshape keeps what the new shape keeps: dropped columns go, a renamed table moves.
func (s *Sink) reshape(t *tx, c *sinkv1.SchemaChange) error {
	from, to := s.bucket(c.GetBefore()), s.bucket(c.GetAfter())
	name := "reshaped " + to
	if s.is(SchemaChangeOnce) {
		if s.memory[name] != nil {
			return precondition(sinkv1.ErrorReason_ERROR_REASON_UNIT_REJECTED)
		}
		s.memory[name] = true
	}
	for _, k := range t.keys(from) {
		old := t.get(from, k).(row)
		next := old
		next.columns = maps.Clone(old.columns)
		for _, lost := range c.GetLostColumns() {
			delete(next.columns, lost)
		}
		if from != to {
			t.put(from, k, nil)
		}
		if s.is(SchemaChangeEmpties) {
			t.put(from, k, nil)
			continue
		}
		t.put(to, k, next)
	}
	return nil
}
