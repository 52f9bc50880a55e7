package badsinks

import (
	"bytes"
	"context"
	"crypto/rand"
	"math"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

const streamsBucket = "streams"

// streamRow is what the store holds of a stream. Rows are never changed in place.
type streamRow struct {
	bound      bool
	system     string
	database   string
	epoch      uint64
	sender     []byte
	position   *uint64
	lineage    []byte
	resume     []byte
	token      []byte
	generation uint64
	// claimed is the position as the last claim answered it.
	claimed *uint64
}

func (t *tx) stream(id string) streamRow {
	if r, ok := t.get(streamsBucket, t.store.streamKey(id)).(streamRow); ok {
		return r
	}
	return streamRow{}
}

func (t *tx) setStream(id string, r streamRow) {
	t.put(streamsBucket, t.store.streamKey(id), r)
}

// streamKey is the stream's key in the store.
func (s *store) streamKey(id string) string {
	if s.defect == CutStreamID {
		return id[:strings.LastIndexByte(id, '_')]
	}
	return id
}

func random16() []byte {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return b
}

// admit tests epoch and gap, or the memory fence, inside the transaction that writes.
func (s *Sink) admit(t *tx, c *sinkv1.StreamContext, expected *uint64) (streamRow, error) {
	row := t.stream(c.GetStreamId())
	t.before = row
	switch c.GetCheckpointOwner() {
	case sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SIDECAR:
		return row, s.fence(c)
	case sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SINK:
	default:
		if !s.is(AnyOwner) {
			return row, invalid("who keeps the checkpoint")
		}
	}
	epoch := row.epoch
	if s.is(FenceInMemory) {
		epoch = s.epochs[c.GetStreamId()]
	}
	if c.GetEpoch() < epoch && !s.is(NoFence) {
		return row, precondition(sinkv1.ErrorReason_ERROR_REASON_FENCED)
	}
	if c.GetEpoch() > row.epoch && !s.is(HigherEpochPasses) {
		return row, precondition(sinkv1.ErrorReason_ERROR_REASON_CHECKPOINT_BEHIND)
	}
	return row, s.gap(row, expected)
}

// gap is S-105.
func (s *Sink) gap(row streamRow, expected *uint64) error {
	if expected == nil || s.is(NoGapCheck) {
		return nil
	}
	if row.position == nil && s.is(AbsentIsZero) {
		return nil
	}
	if row.position == nil || *expected > *row.position {
		return precondition(sinkv1.ErrorReason_ERROR_REASON_CHECKPOINT_BEHIND)
	}
	return nil
}

// advance stores a position, and never a lower one.
func (s *Sink) advance(t *tx, c *sinkv1.StreamContext, checkpoint *uint64, resume []byte) error {
	if c.GetCheckpointOwner() == sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SIDECAR {
		return nil
	}
	if checkpoint == nil || *checkpoint == 0 {
		return invalid("no checkpoint_lsn")
	}
	row := t.stream(c.GetStreamId())
	at := *checkpoint
	if s.is(SignedLSN) && at > math.MaxInt64 {
		at = math.MaxInt64
	}
	higher := row.position == nil || at > *row.position
	if higher || s.is(PositionRegresses) {
		row.position = &at
	}
	if resume != nil && (higher || s.is(ResumeOfReplays)) && !s.is(ResumeForgotten) {
		row.resume = resume
		if s.is(ResumeAsText) {
			row.resume = []byte(strings.ToValidUTF8(string(resume), "?"))
		}
	}
	if resume == nil && higher && s.is(ResumeCleared) {
		row.resume = nil
	}
	t.setStream(c.GetStreamId(), row)
	return nil
}

// Checkpoint reads, or claims.
func (s *Sink) Checkpoint(_ context.Context, q *sinkv1.CheckpointRequest) (*sinkv1.CheckpointResponse, error) {
	if !s.advertises(sinkv1.Capability_CAPABILITY_CHECKPOINT) {
		return nil, status.Error(codes.Unimplemented, "no checkpoint")
	}
	s.touch()
	if r := s.promisedPosition(q); r != nil {
		return r, nil
	}
	t := s.store.begin()
	defer t.end()
	row := t.stream(q.GetStreamId())
	if s.is(AbsentWhileAway) && s.store.disk.gone() {
		return s.position(streamRow{}, nil), nil
	}
	if s.foreign(row, q.GetSource()) && !s.is(NoBinding) {
		return nil, precondition(sinkv1.ErrorReason_ERROR_REASON_SOURCE_MISMATCH)
	}
	repeat := q.Claim != nil && q.GetClaim().GetEpoch() == row.epoch
	if q.Claim == nil && !s.is(ReadBinds) {
		return s.position(row, row.position), nil
	}
	row, err := s.claim(row, q)
	if err != nil {
		return nil, err
	}
	answered := row.position
	if s.is(ClaimAnswersOld) && repeat {
		answered = row.claimed
	}
	if !repeat {
		row.claimed = row.position
	}
	t.setStream(q.GetStreamId(), row)
	if err := t.commit(); err != nil {
		return nil, storeError(err)
	}
	s.epochs[q.GetStreamId()] = row.epoch
	return s.position(row, answered), nil
}

// foreign reports whether a stream is bound to another source.
func (s *Sink) foreign(row streamRow, source *sinkv1.SourceIdentity) bool {
	if !row.bound {
		return false
	}
	return row.system != source.GetSystemIdentifier() || row.database != source.GetDatabase()
}

func (s *Sink) claim(row streamRow, q *sinkv1.CheckpointRequest) (streamRow, error) {
	epoch, sender, repeats := q.GetClaim().GetEpoch(), q.GetClaim().GetSenderId(), s.repeats(row, q)
	switch {
	case epoch > row.epoch:
	case s.is(ClaimTakesMax):
		epoch = max(epoch, row.epoch)
	case epoch == row.epoch && repeats && epoch != 0:
	case q.Claim == nil: // only a sink that binds at a read comes here
	default:
		return row, precondition(sinkv1.ErrorReason_ERROR_REASON_FENCED)
	}
	if !row.bound {
		row.lineage = random16()
	}
	row.bound = true
	row.system, row.database = q.GetSource().GetSystemIdentifier(), q.GetSource().GetDatabase()
	if q.Claim != nil {
		row.epoch, row.sender = epoch, sender
	}
	return row, nil
}

func (s *Sink) position(row streamRow, position *uint64) *sinkv1.CheckpointResponse {
	r := &sinkv1.CheckpointResponse{Position: position, Epoch: row.epoch, Lineage: row.lineage, ResumeState: row.resume}
	if position == nil && s.is(ZeroForNever) {
		zero := uint64(0)
		r.Position = &zero
	}
	if s.is(LineageOfProcess) && row.lineage != nil {
		r.Lineage = s.instance
	}
	return r
}

// fence is S-111, in its order.
func (s *Sink) fence(c *sinkv1.StreamContext) error {
	s.fenceMu.Lock()
	defer s.fenceMu.Unlock()
	if s.is(FenceRemembersRefused) {
		defer func() { s.seen[c.GetStreamId()] = maxFence(s.seen[c.GetStreamId()], c) }()
	}
	if !bytes.Equal(c.GetInstanceId(), s.instance) && !s.is(AnyInstance) {
		return precondition(sinkv1.ErrorReason_ERROR_REASON_INSTANCE_CHANGED)
	}
	high := s.seen[c.GetStreamId()]
	if c.GetEpoch() < high.epoch && !s.is(LibNoEpoch) {
		return precondition(sinkv1.ErrorReason_ERROR_REASON_FENCED)
	}
	if c.GetEpoch() == high.epoch && c.GetSequence() <= high.sequence && !s.is(LibNoSequence) {
		return precondition(sinkv1.ErrorReason_ERROR_REASON_STALE_DELIVERY)
	}
	if s.is(LibSequenceAcrossEpochs) && c.GetSequence() <= high.sequence {
		return precondition(sinkv1.ErrorReason_ERROR_REASON_STALE_DELIVERY)
	}
	s.seen[c.GetStreamId()] = fence{c.GetEpoch(), c.GetSequence()}
	return nil
}

// fence is the highest attempt that was seen of a stream.
type fence struct{ epoch, sequence uint64 }

func maxFence(f fence, c *sinkv1.StreamContext) fence {
	if c.GetEpoch() > f.epoch || c.GetEpoch() == f.epoch && c.GetSequence() > f.sequence {
		return fence{c.GetEpoch(), c.GetSequence()}
	}
	return f
}
