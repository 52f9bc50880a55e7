package conformance

import (
	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func bat(id, title, reason, cause string, needs Need, run func(*Trial), rules ...string) Case {
	return Case{
		ID: id, Level: Must, Profile: Batch, Needs: NeedProbe | needs, Rules: rules, Title: title, Reason: reason, Cause: cause, Run: run,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_BATCH, sinkv1.Capability_CAPABILITY_CHECKPOINT},
		Expect:       "all of the batch or nothing, each transaction once",
	}
}

var batCases = []Case{
	bat("BAT-001", "a batch whose third transaction is broken", "one position stands for all of them",
		"a store transaction for each", 0, batBroken, "S-501", "S-113"),
	bat("BAT-002", "transactions whose end_lsn does not rise", "order is what the skip relies on",
		"the order is taken for granted", 0, batOrder, "P-501", "S-116"),
	bat("BAT-003", "as many transactions as the sink says it takes", "batches grow to the limit",
		"the limit is another than the code's", 0, batMany, "L-112", "S-206"),
	bat("BAT-004", "one key through several transactions of a batch, and a new shape between them", "a batch is read in order, relation by relation",
		"rows are merged by key, or shapes by table", 0, batKeys, "S-401", "V-109"),
	bat("BAT-005", "crash points of a batch of four transactions", "a batch is one unit",
		"a store transaction for each", NeedCrash, batCrash, "S-501", "S-102"),
}

func batBroken(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", null)))
	u := s.unit(s.tx(insert(table, 2, "b", null)), s.tx(update(table, 1, "x", null)), s.tx(insert(table, 3, "c", null)), s.tx(insert(table, 4, "d", null)))
	u.road = roadBatch
	u.edit = func(r *request) { r.transactions[2].Changes[0].RelationIndex = 50 }
	s.refused(u, codes.InvalidArgument, "")
	t.verify("after a batch whose third transaction was broken")
	u.edit = nil
	s.settle(u)
	t.verify("after the whole batch")
}

func batOrder(t *Trial) {
	table, s := t.basic(), t.stream()
	one, two := s.tx(insert(table, 1, "a", null)), s.tx(insert(table, 2, "b", null))
	for _, txs := range [][]*txn{{two, one}, {one, one}} {
		u := &unit{txs: txs, checkpoint: two.end, expected: s.durable, road: roadBatch}
		s.refused(u, codes.InvalidArgument, "")
		t.verify("after a batch whose end_lsn does not rise")
	}
}

func batMany(t *Trial) {
	table, s := t.basic(), t.stream()
	n := int(t.session.caps.GetLimits().GetMaxTransactionsPerBatch())
	if n == 0 {
		n = 1000
	}
	n = min(n, map[Effort]int{Quick: 1000, Normal: 10000, Thorough: 10000}[t.session.o.Effort])
	var txs []*txn
	for i := range n {
		txs = append(txs, s.tx(insert(table, i%100, "a", i)))
	}
	u := s.unit(txs...)
	u.road = roadBatch
	s.settle(u)
	t.note("%d transactions in a batch", n)
	t.verify("after the largest batch")
}

func batKeys(t *Trial) {
	s := t.stream()
	table := t.basic()
	s.deliver(
		s.tx(insert(table, 1, "a", "b")), s.tx(update(table, 1, "c", kept)), s.tx(remove(table, 1)),
		s.tx(insert(table, 1, "again", null)), s.tx(rekey(table, []any{1}, 2, "moved", kept)), s.tx(insert(table, 1, "third", "x")))
	t.verify("after one key through a batch")
	wide := t.table("basic", "id int4 key", "name text", "note text", "more text")
	u := s.unit(s.tx(insert(table, 5, "a", "b")), s.tx(insert(wide, 6, "a", "b", "c")), s.tx(update(wide, 5, "a", kept, "d")))
	before := t.model.counts
	out, err := s.send(t.ctx, u)
	if err != nil {
		t.mustRefuse("a batch with a new column in its middle", err, codes.FailedPrecondition, "SCHEMA_DECLINED")
		t.verify("after a new shape was declined")
		return
	}
	s.accept(u, out, before)
	t.verify("after two shapes of a table in one batch")
}

func batCrash(t *Trial) {
	t.crash("batch of four transactions", func() *scene {
		table, s := t.basic(), t.stream()
		s.deliver(s.tx(insert(table, 1, "old", "old")))
		return t.delivery(s, s.tx(insert(table, 2, "a", null)), s.tx(update(table, 1, "b", null)),
			s.tx(remove(table, 2), insert(table, 3, "c", null)), s.tx(insert(table, 4, "d", null)))
	})
}
