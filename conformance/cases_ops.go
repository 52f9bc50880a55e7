package conformance

import (
	"strings"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func ops(id, title, reason, cause string, run func(*Trial), rules ...string) Case {
	return Case{
		ID: id, Level: Must, Profile: Core, Needs: NeedProbe, Kind: sinkv1.SinkKind_SINK_KIND_STATE_MIRROR, Rules: rules,
		Title: title, Reason: reason, Cause: cause, Run: run, Expect: "the rows that the source has",
	}
}

var opsCases = []Case{
	ops("OPS-001", "insert, update, delete, with one and two key columns", "this is what a mirror is",
		"a key of the first column alone", opsRound, "S-401", "S-402"),
	ops("OPS-002", "an update that changes the key", "the old row stays behind, a ghost",
		"an upsert at the new key and nothing else", opsRekey, "S-404"),
	ops("OPS-003", "update and delete one of several equal rows, without a key", "equal rows are different rows",
		"a delete without a limit", opsEqual, "S-406"),
	ops("OPS-004", "delete of a row and truncate of a table that are not there", "a replay after a copy has them",
		"a count of affected rows taken for an error", opsMissing, "S-405"),
	ops("OPS-005", "many changes of one key in a transaction; delete and insert by turns", "order within a transaction is the source's",
		"changes sorted by kind, or merged by key", opsOrder, "S-401"),
	ops("OPS-006", "insert, truncate of two tables, insert, in one transaction", "a truncate has a place too",
		"truncates run first, or of the first table alone", opsTruncate, "S-401", "S-405"),
	ops("OPS-007", "names: two schemas, capitals, quotes, spaces, dots, 63 bytes, reserved words", "Postgres allows all of them",
		"names that are joined, folded or not quoted", opsNames, "S-401"),
	ops("OPS-008", "an update of a row that is not there, every column carried", "rows enter a publication by updates",
		"an UPDATE whose count is not looked at", opsUnknown, "S-403"),
	ops("OPS-009", "an update and an insert with an unchanged column, of a row that is not there", "an incremental copy has them, and brings the rest later",
		"NOT NULL, or an error for a missing value", opsHole, "S-403"),
	ops("OPS-010", "a key change with an unchanged column", "the value is in the old key's row and nowhere else",
		"NULL for what was not sent", opsRekeyKept, "S-404", "V-106"),
	ops("OPS-011", "the same, where a row with the new key is still there", "{delete b; move a to b} may meet a b that came later",
		"the row at the new key is asked first", opsRekeyOver, "S-404"),
	ops("OPS-012", "an insert where a row with this key is there", "a copy and the stream meet in one key",
		"insert if absent", opsInsertOver, "S-401"),
	ops("OPS-013", "keys that look alike: by case, spaces, accents, zeros; parts that join to the same text", "they are rows of their own at the source",
		"a collation that folds, or key columns that are joined", opsAlike, "S-401", "V-101"),
	ops("OPS-014", "a replica identity by another index than the primary key", "old rows carry that index' columns, and the primary key may change unsaid",
		"the primary key is taken for the identity", opsIndex, "S-401", "S-402"),
}

func opsRound(t *Trial) {
	s := t.stream()
	s.byEach(func(r road) { t.round(s, strings.ToLower(calls[r])) })
}

// round is done in tables of the call that does it.
func (t *Trial) round(s *stream, call string) {
	one := t.table("basic"+call, "id int4 key", "name text", "note text")
	two := t.table("composite"+call, "a int4 key", "b text key", "v text")
	s.deliver(s.tx(insert(one, 1, "a", "b"), insert(one, 2, "c", null), insert(two, 1, "x", "p"), insert(two, 1, "y", "q"), insert(two, 2, "x", "r")))
	t.verify("after inserts")
	s.deliver(s.tx(update(one, 1, "A", null), update(two, 1, "y", "Q")))
	t.verify("after updates")
	s.deliver(s.tx(remove(one, 2), remove(two, 1, "x")))
	t.verify("after deletes")
	s.deliver(s.tx(insert(one, 2, "again", "b"), insert(two, 1, "x", null)))
	t.verify("after inserts of keys that were deleted")
}

func opsRekey(t *Trial) {
	table, two := t.basic(), t.table("composite", "a int4 key", "b text key", "v text")
	s := t.stream()
	s.deliver(s.tx(insert(table, 1, "a", "b"), insert(two, 1, "x", "p")))
	s.deliver(s.tx(rekey(table, []any{1}, 2, "a", "b"), rekey(two, []any{1, "x"}, 1, "y", "p")))
	t.verify("after key changes")
	s.deliver(s.tx(rekey(table, []any{2}, 3, "a", "b"), insert(table, 2, "new", null)))
	t.verify("after a key change and an insert at the old key")
}

func opsEqual(t *Trial) {
	s := t.stream()
	table := t.shaped(t.schema, "keyless", sinkv1.ReplicaIdentity_REPLICA_IDENTITY_FULL, "name text", "note text")
	s.deliver(s.tx(insert(table, "a", "b"), insert(table, "a", "b"), insert(table, "a", "b"), insert(table, "a", null)))
	s.deliver(s.tx(removeFull(table, "a", "b")))
	t.verify("after a delete of one of three equal rows")
	s.deliver(s.tx(replace(table, []any{"a", "b"}, "a", "c")))
	t.verify("after an update of one of two equal rows")
	s.deliver(s.tx(removeFull(table, "a", null)))
	t.verify("after a delete of a row with NULL")
	s.deliver(s.tx(insert(table, "d", ""), insert(table, "d", null), insert(table, "e", null), insert(table, "e", "")))
	s.deliver(s.tx(removeFull(table, "d", null), removeFull(table, "e", "")))
	t.verify("after a delete of a row with NULL beside one with an empty text")
	s.deliver(s.tx(replace(table, []any{"d", null}, "d", "was NULL"), replace(table, []any{"d", ""}, "d", "was empty")))
	t.verify("after updates of the one that is left and of the one that is gone")
}

func opsMissing(t *Trial) {
	table, never := t.basic(), t.table("never", "id int4 key", "name text")
	s := t.stream()
	s.deliver(s.tx(insert(table, 1, "a", "b")))
	s.deliver(s.tx(remove(table, 7)))
	s.deliver(s.tx(truncate(never)))
	t.verify("after deletes and truncates of what is not there")
	s.deliver(s.tx(remove(never, 1), insert(table, 2, "b", null)))
	t.verify("after a delete from a table that is not there")
}

func opsOrder(t *Trial) {
	table, s := t.basic(), t.stream()
	var changes []change
	for i := range 50 {
		if i == 0 {
			changes = append(changes, insert(table, 1, "a", i))
		} else {
			changes = append(changes, update(table, 1, "a", i))
		}
	}
	s.deliver(s.tx(changes...))
	t.verify("after fifty changes of one key")
	s.deliver(s.tx(insert(table, 2, "a", null), remove(table, 2), insert(table, 2, "b", null)))
	t.verify("after insert, delete, insert")
	s.deliver(s.tx(remove(table, 2), insert(table, 2, "c", null), remove(table, 2)))
	t.verify("after delete, insert, delete")
	s.deliver(s.tx(remove(table, 1), insert(table, 1, "new", null)))
	t.verify("after delete, insert")
}

func opsTruncate(t *Trial) {
	a, b := t.basic(), t.table("second", "id int4 key", "name text")
	s := t.stream()
	s.byEach(func(r road) {
		s.deliver(s.tx(insert(a, 1, "a", null), insert(b, 1, "b")))
		s.deliver(s.tx(insert(a, 2, "a", null), insert(b, 2, "b"), truncate(a, b), insert(b, 3, "b")))
		t.verify("after a truncate inside a transaction by " + calls[r])
	})
}

func opsNames(t *Trial) {
	s := t.stream()
	long := strings.Repeat("n", 58) + "_é_x" // 63 bytes
	names := []string{
		"plain", "Plain", "PLAIN", `with"quote`, "with space", "with.dot", "select", "ünïcode_日本", long, "a-b", "'single'", "with\\back", "%s",
	}
	var changes []change
	for i, name := range names {
		for _, schema := range []string{t.schema, t.schema + "_Other"} {
			table := t.shaped(schema, name, sinkv1.ReplicaIdentity_REPLICA_IDENTITY_DEFAULT,
				"id int4 key", "name text")
			table.relation.Columns[1].Name = name
			table.hashed()
			changes = append(changes, insert(table, i, name+schema))
		}
	}
	s.deliver(s.tx(changes...))
	t.verify("in tables and columns with unusual names")
	table := t.table("columns", "id int4 key", "a text", "b text", "c text", "d text")
	for i, name := range []string{"Name", "name", "order", `q"q`} {
		table.relation.Columns[i+1].Name = name
	}
	table.hashed()
	s.deliver(s.tx(insert(table, 1, "capital", "small", "reserved", "quoted"), update(table, 1, "Capital", null, kept, "Quoted")))
	t.verify("in columns that differ by case alone")
}

func opsUnknown(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(update(table, 1, "a", "b"), rekey(table, []any{2}, 3, "c", null)))
	t.verify("after updates of rows that were not there")
}

func opsHole(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", "b")))
	s.deliver(s.tx(update(table, 2, "new", kept), insert(table, 3, "in", kept)))
	t.verify("after changes with a value that nobody sent")
	s.deliver(s.tx(update(table, 2, "whole", "now"), update(table, 3, "whole", null)))
	t.verify("after the whole rows came")
}

func opsRekeyKept(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", "large value")))
	s.deliver(s.tx(rekey(table, []any{1}, 2, "a", kept)))
	t.verify("after a key change with an unchanged column")
	s.deliver(s.tx(insert(table, 8, "b", "another"), rekey(table, []any{8}, 9, kept, kept)))
	t.verify("after the same within one transaction")
}

func opsRekeyOver(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", "of the old key"), insert(table, 2, "b", "of the new key")))
	s.deliver(s.tx(rekey(table, []any{1}, 2, "a", kept)))
	t.verify("after a key change onto a row that is there")
}

func opsInsertOver(t *Trial) {
	table, s := t.basic(), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", "b")))
	s.deliver(s.tx(insert(table, 1, "new", null)))
	t.verify("after an insert at a key that is there")
}

func opsAlike(t *Trial) {
	s := t.stream()
	one := t.table("alike", "id text key", "v text")
	two := t.table("joined", "a text key", "b text key", "v text")
	keys := []string{"Bob", "bob", "BOB", "bob ", " bob", "b\u00f6b", "bo\u0308b", "1", "01", "1.0", "ss", "\u00df", ""}
	pairs := [][]any{
		{"a:b", "c"}, {"a", "b:c"}, {"a,b", "c"}, {"a", "b,c"}, {"ab", "c"}, {"a", "bc"}, {"a|b", "c"}, {"a", "b|c"},
		{"a/b", "c"}, {"a", "b/c"}, {"a b", "c"}, {"a", "b c"}, {"", "a"}, {"a", ""}, {"c", "ab"}, {"c", "a:b"},
	}
	var inserts, updates, deletes []change
	for i, key := range keys {
		inserts = append(inserts, insert(one, key, i))
		updates = append(updates, update(one, key, 100+i))
		if i%2 == 0 {
			deletes = append(deletes, remove(one, key))
		}
	}
	for i, p := range pairs {
		inserts = append(inserts, insert(two, p[0], p[1], i))
		updates = append(updates, update(two, p[0], p[1], 100+i))
		if i%2 == 0 {
			deletes = append(deletes, remove(two, p...))
		}
	}
	s.deliver(s.tx(inserts...))
	t.verify("after inserts of keys that look alike")
	s.deliver(s.tx(updates...))
	t.verify("after updates of keys that look alike")
	s.deliver(s.tx(deletes...))
	t.verify("after deletes of every other of them")
}

func opsIndex(t *Trial) {
	s := t.stream()
	table := t.indexed("indexed", "id int4 primary", "code text key", "name text")
	s.deliver(s.tx(insert(table, 1, "x", "a"), insert(table, 2, "y", "b"), insert(table, 3, "z", "c")))
	s.deliver(s.tx(update(table, 10, "x", "the primary key changed"), update(table, 2, "y", kept)))
	t.verify("after an update that changes the primary key and not the identity")
	s.deliver(s.tx(rekey(table, []any{"y"}, 2, "w", kept), remove(table, "z")))
	t.verify("after a change of the identity, and a delete by it")
	s.deliver(s.tx(insert(table, 3, "z", "again"), update(table, 2, "w", "last")))
	t.verify("after the deleted row came again")
}
