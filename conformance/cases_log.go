package conformance

import (
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func logCase(id, title, reason, cause string, needs Need, run func(*Trial), rules ...string) Case {
	return Case{
		ID: id, Level: Must, Profile: CoreLog, Needs: NeedProbe | needs, Rules: rules, Title: title, Reason: reason, Cause: cause, Run: run,
		Kind:   sinkv1.SinkKind_SINK_KIND_APPEND_LOG,
		Expect: "one entry per change with commit LSN and ordinal, in the source's order, its letters kept",
	}
}

var logCases = []Case{
	logCase("LOG-001", "twenty transactions of mixed changes over three tables", "an append log is the order of things",
		"a buffer per table", 0, logOrder, "S-407"),
	logCase("LOG-002", "replays, and crash points of an append", "a log has no key that hides what came twice",
		"no test of the position, or a position of its own", NeedCrash, logTwice, "S-106", "S-102"),
	logCase("LOG-003", "unchanged columns, deletes, truncates", "what was not sent is not NULL, and a delete is no row",
		"rows of NULLs", 0, logMarks, "S-407", "V-106", "V-107"),
	{
		ID: "LOG-004", Level: Must, Profile: CoreLog, Needs: NeedProbe, Rules: []string{"S-909"},
		Kind:         sinkv1.SinkKind_SINK_KIND_APPEND_LOG,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_SNAPSHOT},
		Title:        "rows of a snapshot, begun anew", Reason: "rows of another attempt must be told apart",
		Expect: "snapshot entries with their run id; nothing is merged or removed", Cause: "they look like inserts",
		Run: logSnapshot,
	},
}

func logOrder(t *Trial) {
	s := t.stream()
	a, b := t.basic(), t.table("second", "id int4 key", "name text")
	c := t.shaped(t.schema, "keyless", sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL, "name text")
	for i := range 20 {
		changes := []change{insert(a, i, "a", null), insert(b, i, "b"), insert(c, "c")}
		switch i % 4 {
		case 1:
			changes = append(changes, update(a, i, "again", kept), remove(b, i))
		case 2:
			changes = append(changes, removeFull(c, "c"), insert(a, 100+i, "x", "y"))
		case 3:
			changes = append(changes, rekey(a, []any{i}, 200+i, "moved", "z"))
		}
		s.deliver(s.tx(changes...))
	}
	t.verify("after twenty transactions")
}

func logTwice(t *Trial) {
	table, s := t.basic(), t.stream()
	txs := s.history(table, 8)
	s.deliver(txs[:5]...)
	s.deliver(txs[2:]...)
	s.deliver(txs...)
	t.verify("after replays")
	again := s.tx(update(table, 1, "x", kept))
	s.deliver(again)
	s.deliver(again)
	t.verify("after the replay of an update with an unchanged column")
	t.crash("append of three entries", func() *scene {
		table, s := t.basic(), t.stream()
		s.deliver(s.tx(insert(table, 1, "old", "old")))
		return t.delivery(s, mix(s, table))
	})
}

func logMarks(t *Trial) {
	table, s := t.basic(), t.stream()
	two := t.table("second", "id int4 key", "name text")
	s.deliver(s.tx(insert(table, 1, "a", "large"), insert(two, 1, null)))
	s.deliver(s.tx(update(table, 1, null, kept), remove(table, 1)))
	s.deliver(s.tx(truncate(table, two), insert(two, 2, "")))
	t.verify("after unchanged columns, deletes and truncates")
}

func logSnapshot(t *Trial) {
	table, s := t.basic(), t.stream()
	c := s.copying()
	s.put(c.first(table, resetRows, rowsOf(1, 3, "a")...))
	s.deliver(s.tx(insert(table, 9, "streamed", null)))
	again := s.copying()
	s.put(again.first(table, resetRows, rowsOf(1, 2, "b")...).final(false))
	t.verify("after two attempts of a copy")
}
