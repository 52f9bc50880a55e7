package pipeline

import (
	"encoding/json"
	"slices"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// resumeStateMax is the contract's limit of the bytes stored beside a checkpoint.
const resumeStateMax = 1 << 20

// resumeState is what a start must know about the time before it: the shapes in which
// rows were delivered, so that a change of shape is noticed although it happened while
// nobody was looking, and a halt for it comes again; and the timeline of the source.
type resumeState struct {
	Version   int              `json:"v"`
	Timeline  uint32           `json:"timeline"`
	Relations []relationRecord `json:"relations"`
}

type relationRecord struct {
	OID      uint32         `json:"oid"`
	Schema   []byte         `json:"schema"` // bytes: a name need not be UTF-8
	Name     []byte         `json:"name"`
	Identity byte           `json:"identity"`
	Columns  []columnRecord `json:"columns"`
}

type columnRecord struct {
	Name     []byte `json:"name"`
	Type     uint32 `json:"type"`
	Modifier int32  `json:"mod"`
	Identity bool   `json:"key,omitempty"`
}

const resumeStateVersion = 1

// readResumeState parses what the owner of the checkpoint gave back; empty is a first
// start. It is our own writing: if it cannot be read, the store has changed it.
func readResumeState(b []byte) (resumeState, error) {
	state := resumeState{Version: resumeStateVersion}
	if len(b) == 0 {
		return state, nil
	}
	if err := json.Unmarshal(b, &state); err != nil || state.Version != resumeStateVersion {
		return state, core.NewHalt(core.HaltSinkContract, "Checkpoint", "the resume state is not the one that was stored (%d bytes)", len(b))
	}
	return state, nil
}

// known are the shapes as relations.
func (s resumeState) known() []*core.Relation {
	var list []*core.Relation
	for _, r := range s.Relations {
		relation := &core.Relation{OID: r.OID, Schema: string(r.Schema), Name: string(r.Name), Identity: core.ReplicaIdentity(r.Identity)}
		for _, c := range r.Columns {
			relation.Columns = append(relation.Columns, core.Column{
				Name: string(c.Name), TypeOID: c.Type, TypeModifier: c.Modifier, Identity: c.Identity,
			})
		}
		list = append(list, relation)
	}
	return list
}

// shapes are those of everything delivered. With keep they are stored with the unit that
// first shows a new one.
type shapes struct {
	keep     bool
	timeline uint32
	byOID    map[uint32]*core.Relation
	// durable are those of rows that are stored; what is only received may come again,
	// in the shape that it had before.
	durable map[uint32]*core.Relation
	seen    map[uint32]bool // a row was delivered since the start
	dirty   bool
}

func newShapes(keep bool, before resumeState, timeline uint32) shapes {
	s := shapes{keep: keep, timeline: timeline, byOID: map[uint32]*core.Relation{}, durable: map[uint32]*core.Relation{}, seen: map[uint32]bool{}}
	for _, r := range before.known() {
		s.byOID[r.OID], s.durable[r.OID] = r, r
	}
	s.dirty = keep && before.Timeline != timeline
	return s
}

// note takes the relation of a received row, and reports that it is another than before.
func (s *shapes) note(r *core.Relation) (another bool) {
	before := s.byOID[r.OID]
	if before == r {
		return false
	}
	s.byOID[r.OID], s.seen[r.OID] = r, true
	if s.keep && (before == nil || before.ShapeHash() != r.ShapeHash()) {
		s.dirty = true
	}
	return true
}

// settle takes what note reported of a unit that is durable now.
func (s *shapes) settle(list []*core.Relation) {
	for _, r := range list {
		s.durable[r.OID] = r
	}
}

// take returns the bytes to store, or nil when nothing changed or they would be too
// many; then a change of shape is noticed only while running.
func (s *shapes) take() []byte {
	if !s.dirty {
		return nil
	}
	s.dirty = false
	b, err := json.Marshal(s.state(s.byOID))
	if err != nil || len(b) > resumeStateMax {
		return nil
	}
	return b
}

// state is shapes in a fixed order.
func (s *shapes) state(list map[uint32]*core.Relation) resumeState {
	state := resumeState{Version: resumeStateVersion, Timeline: s.timeline, Relations: []relationRecord{}}
	for _, r := range list {
		record := relationRecord{OID: r.OID, Schema: []byte(r.Schema), Name: []byte(r.Name), Identity: byte(r.Identity)}
		for i := range r.Columns {
			c := &r.Columns[i]
			record.Columns = append(record.Columns, columnRecord{[]byte(c.Name), c.TypeOID, c.TypeModifier, c.Identity})
		}
		state.Relations = append(state.Relations, record)
	}
	slices.SortFunc(state.Relations, func(a, b relationRecord) int { return int(int64(a.OID) - int64(b.OID)) })
	return state
}
