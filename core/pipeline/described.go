package pipeline

import (
	"slices"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
)

// describedMax bounds the relations that are remembered of one transaction in progress.
// What is above it is delivered as the stream described it.
const describedMax = 1000

// described is the relations that each transaction in progress described, by top xid. The
// catalog shows what a transaction made only once it has committed; so it is asked then.
type described map[uint32][]*core.Relation

// due is the relations to ask the catalog about before m is handed on: the one that m
// describes, or copies of all that the transaction described whose commit m is, which
// travel with m.
func (d described) due(m *pgoutput.Message) []*core.Relation {
	switch m.Kind {
	case pgoutput.KindRelation:
		if m.SubXID == 0 {
			return []*core.Relation{m.Relation}
		}
		if list := d[m.XID]; len(list) < describedMax && !slices.ContainsFunc(list, alike(m.Relation)) {
			c := *m.Relation
			c.Columns = slices.Clone(c.Columns)
			d[m.XID] = append(list, &c)
		}
	case pgoutput.KindStreamStart:
		if m.First {
			delete(d, m.XID)
		}
	case pgoutput.KindStreamAbort:
		if m.SubXID == m.XID {
			delete(d, m.XID)
		}
	case pgoutput.KindStreamCommit:
		m.Relations = d[m.XID]
		delete(d, m.XID)
	}
	return m.Relations
}

func alike(r *core.Relation) func(*core.Relation) bool {
	hash := r.ShapeHash()
	return func(other *core.Relation) bool { return other.OID == r.OID && other.ShapeHash() == hash }
}
