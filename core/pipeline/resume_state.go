package pipeline

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// resumeStateMax is the contract's limit of the bytes stored beside a checkpoint.
const resumeStateMax = 1 << 20

// resumeState is what a start must know about the time before it: the shapes in which
// rows were delivered, so that a change of shape is noticed although it happened while
// nobody was looking, and a halt for it comes again; and the timeline of the source.
type resumeState struct {
	Timeline  uint32 // 0: nothing was stored
	Relations []*core.Relation
}

// readResumeState parses what the owner of the checkpoint gave back; empty is a first
// start. It is our own writing: if it cannot be read, the store has changed it.
func readResumeState(b []byte) (resumeState, error) {
	if len(b) == 0 {
		return resumeState{}, nil
	}
	read := readResumeLog
	if !strings.HasPrefix(string(b[:min(len(b), len(resumeMagic))]), resumeMagic) {
		read = readResumeJSON
	}
	state, ok := read(b)
	if !ok {
		return resumeState{}, core.NewHalt(core.HaltSinkContract, "Checkpoint", "the resume state is not the one that was stored (%d bytes)", len(b))
	}
	return state, nil
}

// readResumeJSON reads the form in which resume states were stored at first.
func readResumeJSON(b []byte) (state resumeState, ok bool) {
	var stored struct {
		Version   int    `json:"v"`
		Timeline  uint32 `json:"timeline"`
		Relations []struct {
			OID      uint32 `json:"oid"`
			Schema   []byte `json:"schema"` // bytes: a name need not be UTF-8
			Name     []byte `json:"name"`
			Identity byte   `json:"identity"`
			Columns  []struct {
				Name     []byte `json:"name"`
				Type     uint32 `json:"type"`
				Modifier int32  `json:"mod"`
				Identity bool   `json:"key"`
			} `json:"columns"`
		} `json:"relations"`
	}
	if err := json.Unmarshal(b, &stored); err != nil || stored.Version != 1 {
		return state, false
	}
	state.Timeline = stored.Timeline
	for _, r := range stored.Relations {
		relation := &core.Relation{OID: r.OID, Schema: string(r.Schema), Name: string(r.Name), Identity: core.ReplicaIdentity(r.Identity)}
		for _, c := range r.Columns {
			relation.Columns = append(relation.Columns, core.Column{
				Name: string(c.Name), TypeOID: c.Type, TypeModifier: c.Modifier, Identity: c.Identity,
			})
		}
		state.Relations = append(state.Relations, relation)
	}
	return state, true
}

// shapes are those of everything delivered. With keep they are stored with the unit that
// first shows a new one, and the timeline with the first unit under it, whatever that is.
type shapes struct {
	keep     bool
	timeline uint32
	byOID    map[uint32]*core.Relation
	// durable are those of rows that are stored; what is only received may come again,
	// in the shape that it had before.
	durable map[uint32]*core.Relation
	seen    map[uint32]bool // a row was delivered since the start

	log   *resumeLog // durable, as it is stored
	most  int        // bytes that may be stored
	stale bool       // what is stored lacks something of the log
	// crowded: all the shapes do not fit, so none is stored and a change of shape is
	// noticed only while running. told hears of it once; it may be nil.
	crowded bool
	told    func(tables int)
}

func newShapes(keep bool, before resumeState, timeline uint32) shapes {
	s := shapes{
		keep: keep, timeline: timeline, most: resumeStateMax,
		byOID: map[uint32]*core.Relation{}, durable: map[uint32]*core.Relation{}, seen: map[uint32]bool{},
	}
	for _, r := range before.Relations {
		s.byOID[r.OID], s.durable[r.OID] = r, r
	}
	if keep {
		s.log, s.stale = newResumeLog(timeline, before.Relations), before.Timeline != timeline
	}
	return s
}

// note takes the relation of a received row, and reports that it is another than before.
func (s *shapes) note(r *core.Relation) (another bool) {
	if s.byOID[r.OID] == r {
		return false
	}
	s.byOID[r.OID], s.seen[r.OID] = r, true
	return true
}

// settle takes what note reported of a unit that is durable now, with the bytes that with
// gave for it.
func (s *shapes) settle(list []*core.Relation) {
	for _, r := range list {
		s.settleOne(r)
	}
	s.stale = false
}

// settleCopied takes the shape of rows that were stored without a position: the next unit
// that has one tells of it.
func (s *shapes) settleCopied(r *core.Relation) {
	if s.byOID[r.OID] == r && s.settleOne(r) {
		s.stale = s.stale || s.keep && !s.crowded
	}
}

func (s *shapes) settleOne(r *core.Relation) (fresh bool) {
	fresh = s.fresh(r)
	s.durable[r.OID] = r
	if fresh && s.keep && !s.crowded {
		s.log.add(r)
	}
	return fresh
}

// fresh reports that no stored row had this shape last.
func (s *shapes) fresh(r *core.Relation) bool {
	before := s.durable[r.OID]
	return before == nil || before != r && before.ShapeHash() != r.ShapeHash()
}

// with returns the bytes to store with a unit that shows these relations, on top of all
// that is durable; nil when what is stored says it already. It may be asked only while
// nothing before the unit is in flight.
func (s *shapes) with(list []*core.Relation) []byte {
	if !s.keep || !s.stale && (s.crowded || !slices.ContainsFunc(list, s.fresh)) {
		return nil
	}
	if s.crowded {
		return s.log.with(nil)
	}
	b := s.log.with(list)
	if len(b) <= s.most {
		return b
	}
	// Without what was replaced since it may fit. If that would not last, it is given up,
	// rather than written anew for each new shape.
	s.log = newResumeLog(s.timeline, inOrder(s.durable))
	if b = s.log.with(list); len(b) <= s.most-s.most/8 {
		return b
	}
	s.log, s.crowded, s.stale = newResumeLog(s.timeline, nil), true, true
	if s.told != nil {
		s.told(len(s.byOID))
	}
	return s.log.with(nil)
}

// take returns the bytes to store with a unit that shows all that was noted.
func (s *shapes) take() []byte { return s.with(inOrder(s.byOID)) }

// state is shapes in a fixed order.
func (s *shapes) state(list map[uint32]*core.Relation) resumeState {
	return resumeState{Timeline: s.timeline, Relations: inOrder(list)}
}

func inOrder(byOID map[uint32]*core.Relation) []*core.Relation {
	return slices.SortedFunc(maps.Values(byOID), func(a, b *core.Relation) int { return cmp.Compare(a.OID, b.OID) })
}

// keepsShapes reports whether a resume state is stored with the checkpoint.
func (s *session) keepsShapes() bool {
	return s.pipeline.options.Store != nil || s.caps.Set.Has(core.CapResumeState)
}

// crowded says once that shapes are not stored.
func (p *Pipeline) crowded(tables int) {
	if p.saidCrowded.CompareAndSwap(false, true) {
		p.log.Warn("the shapes of so many tables do not fit beside the checkpoint: a change of shape while the sidecar is stopped goes unnoticed",
			"tables", tables)
	}
}
