package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// stream is one stream as a sidecar would drive it.
type stream struct {
	t        *Trial
	id       string
	owner    sinkv1.CheckpointOwner
	epoch    uint64
	sender   []byte
	sequence uint64
	instance []byte
	source   *sinkv1.SourceIdentity
	// durable is the position that we know stored, nil for none.
	durable *uint64
	// wal is the end of the source's WAL.
	wal  uint64
	xid  uint32
	sent int
	gids int
	// by is the road of units with one transaction, where they do not say; roadAny takes
	// turns.
	by road
}

// firstLSN is where the WAL of a stream begins: above 2^53, so that a position which was
// ever a double is a wrong one.
const firstLSN = 1<<53 + 0x1001

// stream makes a stream and takes it over, with owner SINK where the sink keeps
// checkpoints and SIDECAR otherwise.
func (t *Trial) stream() *stream {
	s := t.unclaimed("")
	s.claim()
	return s
}

// unclaimed makes a stream that nobody has claimed.
func (t *Trial) unclaimed(suffix string) *stream {
	s := &stream{
		t: t, id: fmt.Sprintf("%s_%d%s", t.schema, len(t.streams)+1, suffix),
		owner:  sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SINK,
		sender: t.bytes(sinkv1.IDBytes), instance: t.session.caps.GetInstanceId(),
		source: &sinkv1.SourceIdentity{
			SystemIdentifier: "7381920374650192837", Database: "shop", Slot: t.schema, Timeline: 1,
		},
		wal: firstLSN,
	}
	if !t.has(sinkv1.Capability_CAPABILITY_CHECKPOINT) {
		s.owner = sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SIDECAR
		s.epoch = 1
	}
	t.streams = append(t.streams, s)
	return s
}

// libStream is a stream whose checkpoint the sidecar keeps.
func (t *Trial) libStream() *stream {
	s := t.unclaimed("_lib")
	s.owner, s.epoch = sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SIDECAR, 1
	return s
}

// bytes are random, from the trial's seed.
func (t *Trial) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(t.rng.Uint32())
	}
	return b
}

// sinkOwned reports whether positions are the sink's.
func (s *stream) sinkOwned() bool {
	return s.owner == sinkv1.CheckpointOwner_CHECKPOINT_OWNER_SINK
}

// claim takes the stream over with the next epoch, which must succeed. Where the sink has
// no stored fence it only reads.
func (s *stream) claim() *sinkv1.CheckpointResponse {
	if !s.sinkOwned() {
		return nil
	}
	if !s.t.session.stored() {
		r := s.read()
		s.durable = stored(r)
		return r
	}
	r, err := s.tryClaim(s.t.ctx, s.epoch+1, s.sender)
	if err != nil {
		s.t.failed("the claim of epoch %d is refused: %v", s.epoch+1, err)
	}
	if r.GetEpoch() != s.epoch+1 {
		s.t.failed("the claim of epoch %d answers epoch %d", s.epoch+1, r.GetEpoch())
	}
	s.epoch = r.GetEpoch()
	s.durable = stored(r)
	return r
}

// stored is the position that an answer tells. A 0 is taken for none, but for the case
// that is about it.
func stored(r *sinkv1.CheckpointResponse) *uint64 {
	if r.GetPosition() == 0 {
		return nil
	}
	return r.Position
}

// tryClaim claims and changes nothing here.
func (s *stream) tryClaim(ctx context.Context, epoch uint64, sender []byte) (*sinkv1.CheckpointResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.t.session.patience())
	defer cancel()
	return s.t.link.sink.Checkpoint(ctx, &sinkv1.CheckpointRequest{
		StreamId: s.id, Source: s.source, Claim: &sinkv1.CheckpointClaim{Epoch: epoch, SenderId: sender},
	})
}

// read asks without a claim, which must succeed.
func (s *stream) read() *sinkv1.CheckpointResponse {
	r, err := s.tryRead(s.t.ctx)
	if err != nil {
		s.t.failed("Checkpoint without a claim is refused: %v", err)
	}
	return r
}

func (s *stream) tryRead(ctx context.Context) (*sinkv1.CheckpointResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.t.session.patience())
	defer cancel()
	return s.t.link.sink.Checkpoint(ctx, &sinkv1.CheckpointRequest{StreamId: s.id, Source: s.source})
}

// verifyPosition compares the sink's position with the model's.
func (s *stream) verifyPosition(when string) {
	if !s.sinkOwned() {
		return
	}
	want, found := s.t.model.positions[s.id], s.read()
	if have := found.GetPosition(); have != want {
		s.t.differs("the position is wrong "+when, lsnText(want), lsnText(have))
	}
}

// lsnText is an LSN as Postgres prints it, "none" for 0.
func lsnText(lsn uint64) string {
	if lsn == 0 {
		return "none"
	}
	return fmt.Sprintf("%X/%X", lsn>>32, lsn&0xffffffff)
}

// tx is the next transaction of the source. Its commit record begins above the end of
// what was before.
func (s *stream) tx(changes ...change) *txn {
	s.wal += 8
	return s.adjacent(changes...)
}

// adjacent is tx whose commit record begins exactly where the last one ended.
func (s *stream) adjacent(changes ...change) *txn {
	s.xid++
	t := &txn{xid: s.xid, commit: s.wal, end: s.wal + 48, changes: changes}
	s.wal = t.end
	return t
}

// context names the stream and the next attempt.
func (s *stream) context() *sinkv1.StreamContext {
	s.sequence++
	return &sinkv1.StreamContext{
		StreamId: s.id, CheckpointOwner: s.owner, Epoch: s.epoch, SenderId: s.sender,
		Sequence: s.sequence, InstanceId: s.instance,
	}
}

// deliver sends transactions as a sidecar would: in one batch where the sink takes
// batches, else one after the other. Each must be answered OK.
func (s *stream) deliver(txs ...*txn) {
	if len(txs) > 1 && !s.batches() {
		for _, t := range txs {
			s.deliver(t)
		}
		return
	}
	s.settle(s.unit(txs...))
}

// settle sends a unit, which must be answered OK with its own position.
func (s *stream) settle(u *unit) *outcome {
	before := s.t.model.counts
	out, err := s.send(s.t.ctx, u)
	if err != nil {
		s.t.failed("%s is refused: %v", u.called, err)
	}
	s.accept(u, out, before)
	return out
}

// accept applies to the model what the sink said it stored.
func (s *stream) accept(u *unit, out *outcome, before tally) {
	want := u.checkpoint
	if s.sinkOwned() && (out.checkpoint == nil || *out.checkpoint != want) {
		found := uint64(0)
		if out.checkpoint != nil {
			found = *out.checkpoint
		}
		s.t.differs(u.called+" answers another position", lsnText(want), lsnText(found))
	}
	s.apply(u)
	if !u.uncounted {
		s.t.session.witness.count(s.t.of.ID, u.called, s.t.model.counts.since(before), out.counts)
	}
}

// apply is what a stored unit does to the model.
func (s *stream) apply(u *unit) {
	m := s.t.model
	if !s.sinkOwned() {
		for _, t := range u.txs {
			m.force(s.id, t)
		}
		return
	}
	for _, t := range u.txs {
		m.transaction(s.id, t)
	}
	if u.checkpoint > m.positions[s.id] {
		m.positions[s.id] = u.checkpoint
	}
	at := m.positions[s.id]
	s.durable = &at
}

// refused sends a unit, which must be refused with this code and reason.
func (s *stream) refused(u *unit, code codes.Code, reason string) *answer {
	_, err := s.send(s.t.ctx, u)
	return s.t.mustRefuse(u.called, err, code, reason)
}

// mustRefuse ends the case unless a call was refused so. A reason of "" is not compared.
func (t *Trial) mustRefuse(call string, err error, code codes.Code, reason string) *answer {
	want := &answer{Code: code, Reason: reason}
	if err == nil {
		t.differs(call+" is answered OK where it must be refused", want.Error(), "OK")
	}
	a := refusal(err)
	if a.Code != code || reason != "" && a.Reason != reason {
		t.differs(call+" is refused in another way", want.Error(), a.Error())
	}
	return a
}

// batches reports whether several transactions may go in one call.
func (s *stream) batches() bool {
	return s.sinkOwned() && s.t.has(sinkv1.Capability_CAPABILITY_BATCH) || s.t.session.onlyTwoPhase()
}

// since is the difference of two tallies.
func (t tally) since(b tally) tally {
	return tally{
		t.inserted - b.inserted, t.updated - b.updated, t.deleted - b.deleted,
		t.truncated - b.truncated, t.replayed - b.replayed,
	}
}

// deadline is the context of one call.
func (t *Trial) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, t.session.patience())
}

// wait polls until done says so; it fails the case after the patience is over.
func (t *Trial) wait(what string, done func() bool) {
	end := time.Now().Add(t.session.patience())
	for !done() {
		if time.Now().After(end) {
			t.failed("%s: waited %s in vain", what, t.session.patience())
		}
		select {
		case <-t.ctx.Done():
			t.broken(t.ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// capabilityName is the name without its prefix.
func capabilityName(c sinkv1.Capability) string {
	return strings.TrimPrefix(c.String(), "CAPABILITY_")
}
