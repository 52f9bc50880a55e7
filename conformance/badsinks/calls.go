package badsinks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// writing is what the requests of units have in common.
type writing struct {
	context    *sinkv1.StreamContext
	expected   *uint64
	checkpoint *uint64
	resume     []byte
	relations  []*sinkv1.Relation
	txs        []*sinkv1.Transaction
	batch      bool
}

// HandleTransaction stores one transaction, or an idle step.
func (s *Sink) HandleTransaction(ctx context.Context, q *sinkv1.HandleTransactionRequest) (*sinkv1.HandleTransactionResponse, error) {
	if err := s.missing(sinkv1.Capability_CAPABILITY_TRANSACTION); err != nil {
		return nil, err
	}
	w := writing{
		context: q.GetContext(), expected: q.ExpectedCheckpoint, checkpoint: q.CheckpointLsn,
		resume: q.ResumeState, relations: q.GetRelations(),
	}
	if q.Transaction != nil {
		w.expected = s.expects(TransactionNoGap, w.expected)
		w.txs = []*sinkv1.Transaction{q.Transaction}
	}
	counts, err := s.handle(ctx, &w)
	if err != nil {
		return nil, err
	}
	return &sinkv1.HandleTransactionResponse{CheckpointLsn: w.checkpoint, Counts: counts}, nil
}

// HandleBatch stores whole transactions as one unit.
func (s *Sink) HandleBatch(ctx context.Context, q *sinkv1.HandleBatchRequest) (*sinkv1.HandleBatchResponse, error) {
	if err := s.missing(sinkv1.Capability_CAPABILITY_BATCH); err != nil {
		return nil, err
	}
	w := writing{
		context: q.GetContext(), expected: q.ExpectedCheckpoint, checkpoint: q.CheckpointLsn,
		resume: q.ResumeState, relations: q.GetRelations(), txs: q.GetTransactions(), batch: true,
	}
	if s.is(MaximumLies) && len(w.txs) > 500 {
		return nil, status.Error(codes.ResourceExhausted, "too many transactions")
	}
	if s.is(BatchByTransaction) && len(w.txs) == 4 {
		return s.oneByOne(ctx, w)
	}
	counts, err := s.handle(ctx, &w)
	if err != nil {
		return nil, err
	}
	return &sinkv1.HandleBatchResponse{CheckpointLsn: w.checkpoint, Counts: counts}, nil
}

// oneByOne commits each transaction of a batch by itself.
func (s *Sink) oneByOne(ctx context.Context, w writing) (*sinkv1.HandleBatchResponse, error) {
	for i, x := range w.txs {
		one := w
		one.txs = []*sinkv1.Transaction{x}
		if i < len(w.txs)-1 {
			one.checkpoint = &x.EndLsn
		}
		if _, err := s.handle(ctx, &one); err != nil {
			return nil, err
		}
	}
	return &sinkv1.HandleBatchResponse{CheckpointLsn: w.checkpoint}, nil
}

// leak keeps a worker for each call whose caller left, until none is free.
func (s *Sink) leak(ctx context.Context, w *writing) error {
	if !s.is(LeaksOnCancel) {
		return nil
	}
	counted, _ := s.canceled.LoadOrStore(w.context.GetStreamId(), new(atomic.Int64))
	n := counted.(*atomic.Int64)
	if n.Load() > 15 {
		<-ctx.Done()
		return storeError(ctx.Err())
	}
	select {
	case <-ctx.Done():
		n.Add(1)
	case <-time.After(5 * time.Millisecond):
	}
	return nil
}

// firstShapes gives every relation the first shape that a request has of its table.
func firstShapes(rels []*sinkv1.Relation) []*sinkv1.Relation {
	out := slices.Clone(rels)
	for i, r := range rels {
		for _, first := range rels[:i] {
			if bucketOf(first) == bucketOf(r) && len(first.GetColumns()) != len(r.GetColumns()) {
				out[i] = first
			}
		}
	}
	return out
}

// handle is the one store transaction of a unit.
func (s *Sink) handle(ctx context.Context, w *writing) (*sinkv1.Counts, error) {
	if err := s.leak(ctx, w); err != nil {
		return nil, err
	}
	if s.is(FirstShapeOfRequest) {
		w.relations = firstShapes(w.relations)
	}
	size := 0
	if s.is(LimitLies) {
		for _, x := range w.txs {
			size += proto.Size(x)
		}
	}
	if size > 4<<20 {
		return nil, status.Error(codes.ResourceExhausted, "too large")
	}
	if s.is(OtherCodeForLarge) && proto.Size(&sinkv1.HandleBatchRequest{Transactions: w.txs}) > 8<<20 {
		return nil, status.Error(codes.Internal, "too large")
	}
	if s.is(FenceBeforeTransaction) {
		t := s.store.begin()
		_, err := s.admit(t, w.context, w.expected)
		t.end()
		if err != nil {
			return nil, err
		}
		time.Sleep(2 * time.Millisecond)
	}
	t := s.store.begin()
	if s.is(ZombieHandler) && w.keyless(sinkv1.ReplicaIdentity_REPLICA_IDENTITY_DEFAULT) {
		t.end()
		t = s.store.rush()
	}
	defer t.end()
	expected := w.expected
	if s.is(AnyIdleBehind) && len(w.txs) == 0 {
		expected = nil
	}
	row, err := s.admit(t, w.context, expected)
	if err != nil && !s.is(FenceBeforeTransaction) {
		return nil, err
	}
	if !t.held {
		time.Sleep(time.Millisecond)
	}
	if (s.is(LateCommit) || !t.held) && len(w.txs) == 1 && len(w.txs[0].GetChanges()) > 1000 {
		time.Sleep(100 * time.Millisecond) // a slow store
	}
	if s.is(IgnoresIdle) && len(w.txs) == 0 {
		return &sinkv1.Counts{}, nil
	}
	counts, err := s.unit(ctx, t, w, row)
	if err != nil {
		return nil, s.failed(t, err)
	}
	if err := s.advance(t, w.context, w.checkpoint, w.resume); err != nil {
		return nil, err
	}
	if err := s.leave(ctx, t, w); err != nil {
		return nil, err
	}
	s.manner(t, w, counts)
	if err := t.commit(); err != nil {
		return s.uncommitted(ctx, t, w, err)
	}
	if s.is(ResumeLater) && w.resume != nil {
		return s.told(counts), s.resumeLater(t, w)
	}
	return s.told(counts), nil
}

// leave is what becomes of a unit whose caller left.
func (s *Sink) leave(ctx context.Context, t *tx, w *writing) error {
	full := w.keyless(sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL)
	if s.is(CancelKeepsRows) && full {
		time.Sleep(3 * time.Millisecond)
	}
	switch {
	case ctx.Err() == nil:
		return nil
	case s.is(ZombieHandler) && !t.held:
		time.Sleep(150 * time.Millisecond)
		return nil
	case s.is(CancelKeepsRows) && full, s.is(LateCommit) && len(w.txs) == 1 && len(w.txs[0].GetChanges()) > 1000 && !w.keyless(0):
		_ = t.store.parts(t.writes(isRow))
	}
	return storeError(ctx.Err())
}

// manner is how a defect commits this unit.
func (s *Sink) manner(t *tx, w *writing, counts *sinkv1.Counts) {
	owned := w.context.GetCheckpointOwner() == sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SINK
	changes := 0
	truncates := false
	for _, x := range w.txs {
		changes += len(x.GetChanges())
		for _, c := range x.GetChanges() {
			truncates = truncates || c.GetTruncate() != nil
		}
	}
	t.early = s.is(AckBeforeCommit) && owned && changes == 2 && counts.GetInserted() == 2 || s.is(LibAckEarly) && !owned
	t.apart = s.is(TwoCommitsOnOverlap) && counts.GetReplayedTransactions() > 0 || s.is(TwoCommitsOnTruncate) && truncates
	if s.is(LibAutocommit) && !owned {
		for _, w := range t.writes(nil)[:len(t.order)-1] {
			_ = s.store.parts([]write{w})
		}
	}
	if s.is(ResumeLater) && w.resume != nil {
		row := t.stream(w.context.GetStreamId())
		row.resume = t.before.resume
		t.setStream(w.context.GetStreamId(), row)
	}
}

// resumeLater stores the resume state by itself.
func (s *Sink) resumeLater(t *tx, w *writing) error {
	row := t.stream(w.context.GetStreamId())
	row.resume = w.resume
	return storeError(s.store.parts([]write{{at: place{streamsBucket, s.store.streamKey(w.context.GetStreamId())}, value: row}}))
}

// keyless reports whether a unit is about a table without a key, of this identity unless
// that is 0.
func (w *writing) keyless(identity sinkv1.ReplicaIdentity) bool {
	return len(w.relations) > 0 && len(keyOf(w.relations[0])) == 0 &&
		(identity == 0 || w.relations[0].GetReplicaIdentity() == identity)
}

// failed is what becomes of a unit with a fault in it.
func (s *Sink) failed(t *tx, err error) error {
	rows := slices.ContainsFunc(t.order, isRow)
	if s.is(KeepsPartBeforeFault) || s.is(KeepsLongPart) && len(t.order) > 40 && refusedCode(err) == codes.InvalidArgument ||
		s.is(LibKeepsPart) && rows && t.before.epoch == 0 || s.is(LateCommit) && len(t.order) > 500 && refusedCode(storeError(err)) != codes.InvalidArgument && t.keyed() {
		_ = t.store.parts(t.writes(isRow))
	}
	return storeError(s.leaky(err))
}

// unit applies the transactions that the stream has not.
func (s *Sink) unit(ctx context.Context, t *tx, w *writing, row streamRow) (*sinkv1.Counts, error) {
	defer s.promise(w)()
	counts := &sinkv1.Counts{}
	owned := w.context.GetCheckpointOwner() == sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SINK
	end := uint64(0)
	stream := w.context.GetStreamId()
	for _, x := range w.txs {
		if x.GetEndLsn() <= end && !s.is(AnyOrder) {
			return nil, invalid("end_lsn does not rise")
		}
		end = x.GetEndLsn()
		if owned && s.have(row, x, w) || !owned && s.is(LibSkips) && s.libHas(stream, end) {
			if err := s.replayed(ctx, t, w, x, counts); err != nil {
				return nil, err
			}
			continue
		}
		if err := s.apply(ctx, t, stream, w.relations, x, counts); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// have reports whether the stream has a transaction: S-106, and the ways to get it wrong.
func (s *Sink) have(row streamRow, x *sinkv1.Transaction, w *writing) bool {
	if s.is(DedupeByContent) {
		text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(&sinkv1.HandleBatchRequest{Transactions: w.txs})
		sum := sha256.Sum256(text)
		name := w.context.GetStreamId() + hex.EncodeToString(sum[:])
		known := s.requests[name]
		if x == w.txs[len(w.txs)-1] {
			s.requests[name] = true
		}
		return known
	}
	first := s.is(ForgetsByRestart) && s.memory["wrote "+w.context.GetStreamId()] == nil
	if first {
		s.memory["wrote "+w.context.GetStreamId()] = true
	}
	if row.position == nil {
		return false
	}
	at := *row.position
	last := w.txs[len(w.txs)-1].GetEndLsn()
	switch {
	case s.is(SkipsByCommitLSN):
		return x.GetCommitLsn() <= at
	case s.is(NoReplaySkip):
		return false
	case s.is(StrictlyLess):
		return x.GetEndLsn() < at
	case s.is(BatchSkippedByLast) && len(w.txs) >= 6 && len(w.txs) <= 8:
		return last <= at
	case s.is(BatchSkippedByFirst) && len(w.txs) == 12:
		return w.txs[0].GetEndLsn() <= at
	case s.is(LogDuplicates) && keptUpdate(x):
		return false
	case s.is(ForgetsByRestart) && s.starts > 1 && first:
		return false
	}
	return x.GetEndLsn() <= at
}

// libHas remembers positions where there are none to compare.
func (s *Sink) libHas(stream string, end uint64) bool {
	high, _ := s.memory["lib "+stream].(uint64)
	s.memory["lib "+stream] = max(high, end)
	return end <= high
}

// replayed counts a replay, and does with it what some sinks do.
func (s *Sink) replayed(ctx context.Context, t *tx, w *writing, x *sinkv1.Transaction, counts *sinkv1.Counts) error {
	n := counts.GetReplayedTransactions() + 1
	counts.ReplayedTransactions = &n
	if s.is(AlreadyExists) && len(x.GetChanges()) == 0 {
		return status.Error(codes.AlreadyExists, "already there")
	}
	name := w.context.GetStreamId()
	s.replays[name]++
	if s.is(TiresOfReplays) && s.replays[name] > 6 {
		return status.Error(codes.Internal, "again")
	}
	again := &sinkv1.Transaction{CommitLsn: x.GetCommitLsn(), EndLsn: x.GetEndLsn()}
	for _, c := range x.GetChanges() {
		if s.redone(w.relations, x, c) {
			again.Changes = append(again.Changes, c)
		}
	}
	return s.apply(ctx, t, name, w.relations, again, &sinkv1.Counts{})
}

// redone says which changes of a replay a defect lets through.
func (s *Sink) redone(rels []*sinkv1.Relation, x *sinkv1.Transaction, c *sinkv1.Change) bool {
	switch s.defect {
	case RedoesTruncates:
		return c.GetOp() == sinkv1.ChangeOp_CHANGE_OP_TRUNCATE && len(x.GetChanges()) == 1
	case RedoesInserts:
		return c.GetOp() == sinkv1.ChangeOp_CHANGE_OP_INSERT && c.GetNewRow().GetKinds() == "ttt" && len(x.GetChanges()) == 1
	case RedoesUpdates:
		return c.GetOp() == sinkv1.ChangeOp_CHANGE_OP_UPDATE && c.GetOldRowKind() == sinkv1.OldRowKind_OLD_ROW_KIND_NONE
	case RedoesKeyChanges:
		return c.GetOp() == sinkv1.ChangeOp_CHANGE_OP_UPDATE && c.GetOldRowKind() == sinkv1.OldRowKind_OLD_ROW_KIND_KEY
	case RedoesKeyless:
		return c.GetOp() == sinkv1.ChangeOp_CHANGE_OP_INSERT && len(keyOf(rels[c.GetRelationIndex()])) == 0 &&
			rels[c.GetRelationIndex()].GetReplicaIdentity() == sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL
	}
	return false
}

// told is the counts as the sink tells them.
func (s *Sink) told(c *sinkv1.Counts) *sinkv1.Counts {
	if s.is(CountsLie) {
		n := c.GetReplayedTransactions() + c.GetDeleted() + 1
		return &sinkv1.Counts{Deleted: &n}
	}
	if s.defect != "" { // a sink may tell none, and what it does wrong is to be found by its rows
		return nil
	}
	return c
}

// keptUpdate reports whether a transaction updates a row and leaves a column alone.
func keptUpdate(x *sinkv1.Transaction) bool {
	return slices.ContainsFunc(x.GetChanges(), func(c *sinkv1.Change) bool {
		return c.GetOp() == sinkv1.ChangeOp_CHANGE_OP_UPDATE && c.GetOldRow() == nil && strings.Contains(c.GetNewRow().GetKinds(), "u")
	})
}

// keyed reports whether the rows that were written so far have keys of a table.
func (t *tx) keyed() bool {
	return len(t.order) > 0 && strings.Contains(t.order[0].key, ":")
}
