package assembler

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
)

// replay is a streamed transaction that has committed and is given out piece by piece.
type replay struct {
	tx     *inProgress
	commit pgoutput.Message

	block   []byte // what is left of the block in hand
	tailed  bool   // the block is the tail, the last one
	frames  uint64 // read so far
	arrival uint64 // of the description that follows
	decoder *pgoutput.Decoder
	message pgoutput.Message
	// described are the relations that the transaction described so far.
	described map[uint32]struct{}
	// newer are descriptions that came later than the transaction's own of the same
	// relation: they are in force again behind it.
	newer []*entry
}

// Replaying reports that a streamed transaction committed and is not wholly given out.
// Until then nothing may be pushed.
func (a *Assembler) Replaying() bool { return a.replay != nil }

// Replay takes the next message of the streamed transaction whose commit was pushed, and
// says what it completed, as Push does. Memory is bounded by one spilled block beside
// what the caller lets collect.
func (a *Assembler) Replay() (Step, error) {
	if a.halt != nil {
		return StepNone, a.halt
	}
	return a.done(a.replayNext())
}

func (a *Assembler) replayNext() (Step, *core.Halt) {
	r := a.replay
	switch {
	case r == nil:
		return StepNone, core.NewHalt(core.HaltInvariant, "assemble", "there is nothing to replay")
	case a.state == stateCommitted:
		return StepNone, core.NewHalt(core.HaltInvariant, "assemble", "a finished transaction was not taken")
	case a.state == stateIdle:
		return a.restore()
	}
	frame, sub, halt := r.next()
	switch {
	case halt != nil:
		return StepNone, halt
	case frame == nil:
		return a.replayed()
	}
	if _, aborted := r.tx.aborted[sub]; aborted {
		return StepNone, nil
	}
	if frame[0] == kindArrival {
		r.arrival = binary.BigEndian.Uint64(frame[1:])
		return StepNone, nil
	}
	if err := r.decoder.Decode(frame, &r.message); err != nil {
		// It was decoded once; so it is not what was written.
		return StepNone, core.NewHalt(core.HaltSpillFailed, "replay", "a message of %d bytes came back broken", len(frame))
	}
	return a.again(r)
}

// again applies a message of the replay.
func (a *Assembler) again(r *replay) (Step, *core.Halt) {
	m := &r.message
	switch m.Kind {
	case pgoutput.KindRelation:
		oid := m.RelationOID
		r.described[oid] = struct{}{}
		if inForce := a.relations.byOID[oid]; inForce != nil && inForce.arrival > r.arrival {
			kept := *inForce // its arrival is of then
			r.newer = append(r.newer, &kept)
		}
		m.Relation = r.annotated(m.Relation)
		return a.describe(m, r.arrival)
	case pgoutput.KindInsert, pgoutput.KindUpdate, pgoutput.KindDelete:
		if _, ok := r.described[m.RelationOID]; !ok {
			return StepNone, undescribed(m.RelationOID)
		}
	case pgoutput.KindTruncate:
		for _, oid := range m.Truncate.OIDs {
			if _, ok := r.described[oid]; !ok {
				return StepNone, undescribed(oid)
			}
		}
	}
	return a.apply(m)
}

// undescribed: a relation that only other transactions described may have had another
// shape then. The server describes each anew in every streamed transaction.
func undescribed(oid uint32) *core.Halt {
	return core.NewHalt(core.HaltUnknownRelation, "assemble", "relation OID %d was not described in its streamed transaction", oid)
}

// annotated is the description with what the catalog said of it at the commit.
func (r *replay) annotated(fresh *core.Relation) *core.Relation {
	for _, known := range r.commit.Relations {
		if sameShape(known, fresh) {
			return cloneRelation(known)
		}
	}
	return fresh
}

func cloneRelation(r *core.Relation) *core.Relation {
	c := *r
	c.Columns = slices.Clone(r.Columns)
	return &c
}

// next is the next frame without its header, nil behind the last.
func (r *replay) next() (frame []byte, sub uint32, halt *core.Halt) {
	for len(r.block) == 0 {
		if r.tailed {
			if r.frames != r.tx.frames {
				return nil, 0, core.NewHalt(core.HaltSpillFailed, "replay", "%d messages came back of %d", r.frames, r.tx.frames)
			}
			return nil, 0, nil
		}
		if halt := r.nextBlock(); halt != nil {
			return nil, 0, halt
		}
	}
	if len(r.block) < frameHeader || frameSize(r.block) > len(r.block) || frameSize(r.block) == frameHeader {
		return nil, 0, core.NewHalt(core.HaltSpillFailed, "replay", "a block of messages came back broken")
	}
	r.frames++
	size := frameSize(r.block)
	sub, frame = binary.BigEndian.Uint32(r.block), r.block[frameHeader:size]
	r.block = r.block[size:]
	return frame, sub, nil
}

func (r *replay) nextBlock() *core.Halt {
	if r.tx.file != nil {
		block, err := r.tx.file.Next()
		if err == nil {
			r.block = block
			return nil
		}
		if err != io.EOF { //nolint:errorlint // the contract of Next
			return asHalt(err)
		}
	}
	r.block, r.tailed = r.tx.tail, true
	return nil
}

// replayed ends the transaction behind its last message.
func (a *Assembler) replayed() (Step, *core.Halt) {
	r := a.replay
	a.streams.held.drop(&r.tx.holding)
	a.relations.described = nil
	if len(r.newer) == 0 {
		a.replay = nil
	}
	return a.commit(&r.commit)
}

// restore puts the descriptions back in force that came while the transaction was in
// progress: the server takes them as told. It gives one step each.
func (a *Assembler) restore() (Step, *core.Halt) {
	r := a.replay
	for len(r.newer) > 0 {
		kept := r.newer[0]
		r.newer = r.newer[1:]
		oid := kept.relation.OID
		if a.relations.byOID[oid].arrival > kept.arrival {
			continue // the transaction's last word is newer still
		}
		m := pgoutput.Message{Kind: pgoutput.KindRelation, RelationOID: oid, Relation: cloneRelation(kept.relation)}
		step, halt := a.describe(&m, kept.arrival)
		a.relations.described = nil
		if step != StepNone || halt != nil {
			return step, halt
		}
	}
	a.replay = nil
	return StepNone, nil
}

func (a *Assembler) endReplay() {
	if a.replay != nil {
		a.streams.held.drop(&a.replay.tx.holding)
		a.replay = nil
	}
}
