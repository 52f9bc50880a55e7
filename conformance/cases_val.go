package conformance

import (
	"strings"

	"google.golang.org/grpc/codes"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

func val(id, title, reason, cause string, run func(*Trial), rules ...string) Case {
	return Case{
		ID: id, Level: Must, Profile: Core, Needs: NeedProbe, Rules: rules,
		Title: title, Reason: reason, Cause: cause, Run: run,
		Expect: "the same bytes, or VALUE_UNREPRESENTABLE and nothing stored",
	}
}

var valCases = []Case{
	val("VAL-001", "NULL, the empty text, and the texts NULL, \\N and null", "a store that mixes them up cannot be mended later",
		"a text format with a NULL of its own", typed(nullTexts), "V-105"),
	val("VAL-002", "limits of int2, int4, int8; 2^53+1; -0", "numbers above 2^53 break in doubles",
		"a JavaScript number", typed(integers), "V-101", "V-102"),
	val("VAL-003", "numeric: a thousand digits, 1.10 and 1.1, NaN, Infinity", "scale is part of a numeric",
		"a float, or a decimal type with a precision", typed(numerics), "V-101", "V-102"),
	val("VAL-004", "floats: shortest texts, denormals, NaN, infinities, -0", "the shortest text that reads back is the value",
		"a float of the wrong width", typed(floats), "V-101", "V-102"),
	val("VAL-005", "text: four-byte characters, combining marks, a byte order mark, line ends, tabs, backslashes, quotes, 1 MiB",
		"text is bytes to us", "normalization, trimming, escaping, a column limit", valText, "V-101", "V-102"),
	val("VAL-006", "text that is not UTF-8", "a SQL_ASCII database has such texts",
		"a replacement character", valNotUTF8, "V-102"),
	val("VAL-007", "bytea: every byte, empty, 1 MiB", "hex text is how Postgres prints it",
		"decoding, and empty taken for nothing", valBytea, "V-101", "V-102"),
	val("VAL-008", "dates and times: infinity, BC, the year 294276, 24:00:00, microseconds, mixed intervals",
		"no other system's time type has all of them", "a date library between", typed(datesAndTimes), "V-101", "V-102"),
	val("VAL-009", "json and jsonb, arrays, ranges, enums, domains, composites, uuid, inet, bits, money, an unknown type",
		"what cannot be parsed is still a text", "a parser that prints its own form", typed(otherTypes), "V-101", "V-102"),
	val("VAL-010", "texts like famous sentinels, and like our letters", "a sentinel inside data is a value for somebody",
		"a marker text for unchanged or missing", typed(sentinels), "V-105"),
	val("VAL-011", "an unchanged column: of a row stored earlier, of a row of this unit, of a row whose key changes now",
		"the stream does not carry large values that an update left alone", "NULL, or empty, for what was not sent", valKept, "V-106", "S-402"),
	val("VAL-012", "rows with an unchanged column among rows with a new value for it", "statements over many rows have one column list",
		"one statement built by the first row", valMixed, "V-106", "S-402"),
	val("VAL-013", "absent columns of an insert; key-only old rows", "what is not published is not NULL, and no condition",
		"absent is taken for NULL", valAbsent, "V-107"),
}

// typed sends each value in an insert and in an update, a table a type, and NULL beside.
func typed(values map[string][]string) func(*Trial) {
	return func(t *Trial) {
		s := t.stream()
		for _, kind := range sortedKeys(values) {
			table := t.table("v_"+strings.NewReplacer("[]", "_array").Replace(kind), "id int4 key", "v "+kind, "w "+kind)
			var stored []change
			for i, v := range values[kind] {
				stored = append(stored, insert(table, i, v, null))
			}
			if !t.sendValue(s, kind, stored...) {
				continue
			}
			stored = stored[:0]
			for i, v := range values[kind] {
				stored = append(stored, update(table, i, null, v))
			}
			t.sendValue(s, kind, stored...)
			t.verify("of type " + kind)
			if !t.has(sinkv1.Capability_CAPABILITY_LARGE_TRANSACTION) {
				continue
			}
			stored = stored[:0]
			for i, v := range values[kind] {
				stored = append(stored, insert(table, 1000+i, null, v), update(table, i, v, kept))
			}
			s.by = roadLarge
			t.sendValue(s, kind, stored...)
			s.by = roadAny
			t.verify("of type " + kind + " in frames")
		}
	}
}

// sendValue delivers changes, and where the sink declines them each by itself: that it
// declines one value says nothing about the others. False: it declined all of them.
func (t *Trial) sendValue(s *stream, kind string, changes ...change) bool {
	if t.offer(s, kind, changes...) {
		return true
	}
	taken := 0
	if len(changes) > 1 {
		for _, c := range changes {
			if t.offer(s, kind, c) {
				taken++
			}
		}
	}
	t.note("declined: %s, %d of %d changes", kind, len(changes)-taken, len(changes))
	return taken > 0
}

// offer delivers changes, or reports that the sink declines such values: then nothing of
// them may be stored.
func (t *Trial) offer(s *stream, kind string, changes ...change) bool {
	before := t.model.counts
	u := s.unit(s.tx(changes...))
	out, err := s.send(t.ctx, u)
	if err == nil {
		s.accept(u, out, before)
		return true
	}
	if a := refusal(err); a.Code != codes.OutOfRange || a.Reason != "VALUE_UNREPRESENTABLE" {
		t.differs("a value of type "+kind+" is refused in another way", "OK, or OUT_OF_RANGE (VALUE_UNREPRESENTABLE)", a.Error())
	}
	t.verify("after a value of type " + kind + " was declined")
	return false
}

func valText(t *Trial) {
	typed(oddTexts)(t)
}

func valNotUTF8(t *Trial) {
	table, s := t.table("ascii", "id int4 key", "v text"), t.stream()
	if t.sendValue(s, "text that is not UTF-8", insert(table, 1, []byte("caf\xe9 \xff\xfe")), insert(table, 2, []byte("\xc3"))) {
		t.verify("of text that is not UTF-8")
	}
}

func valBytea(t *Trial) {
	values := binaries()
	values["bytea"] = append(values["bytea"], hexText(t.bytes(1<<19)))
	typed(values)(t)
}

func hexText(b []byte) string {
	const digits = "0123456789abcdef"
	out := make([]byte, 0, 2+2*len(b))
	out = append(out, '\\', 'x')
	for _, c := range b {
		out = append(out, digits[c>>4], digits[c&15])
	}
	return string(out)
}

func valKept(t *Trial) {
	table, s := t.basic(), t.stream()
	large := strings.Repeat("large ", 2000)
	s.deliver(s.tx(insert(table, 1, "a", large)))
	s.deliver(s.tx(update(table, 1, "b", kept)))
	t.verify("after an update that left a column of a stored row alone")
	s.deliver(s.tx(insert(table, 2, "a", large+"2"), update(table, 2, "b", kept), update(table, 2, kept, kept)))
	t.verify("after an update that left a column of a row of its own unit alone")
	if s.batches() {
		s.deliver(s.tx(insert(table, 3, "a", large+"3")), s.tx(update(table, 3, "b", kept)))
		t.verify("after the same in two transactions of a batch")
	}
	s.deliver(s.tx(update(table, 1, null, kept)), s.tx(update(table, 1, kept, "short now")))
	t.verify("after updates of the other column by turns")
	s.byEach(func(r road) {
		k := 10 * int(r)
		s.deliver(s.tx(insert(table, k, "a", large), insert(table, k+1, "a", large)))
		s.deliver(s.tx(update(table, k, "b", kept), rekey(table, []any{k + 1}, k+2, "a", kept)))
		t.verify("after the same by " + calls[r])
	})
}

func valMixed(t *Trial) {
	table, s := t.table("four", "id int4 key", "a text", "b text", "c text"), t.stream()
	var changes []change
	for i := range 12 {
		changes = append(changes, insert(table, i, "a", "b", "c"))
	}
	s.deliver(s.tx(changes...))
	changes = changes[:0]
	for i := range 12 {
		row := []any{i, "A", "B", "C"}
		for bit := range 3 {
			if i&(1<<bit) != 0 {
				row[1+bit] = kept
			}
		}
		changes = append(changes, update(table, row...))
	}
	s.deliver(s.tx(changes...))
	t.verify("after rows with different unchanged columns")
	s.deliver(s.tx(update(table, 7, kept, "x", kept), update(table, 0, "y", kept, null), update(table, 1, kept, kept, "z")))
	t.verify("after more of them")
}

func valAbsent(t *Trial) {
	table, s := t.table("part", "id int4 key", "name text", "note text"), t.stream()
	s.deliver(s.tx(insert(table, 1, "a", gone), insert(table, 2, "b", "c")))
	s.deliver(s.tx(update(table, 2, "B", gone)))
	t.verify("after rows with a column that is not published")
	s.deliver(s.tx(remove(table, 2)))
	t.verify("after a delete by a key-only old row")
	s.deliver(s.tx(rekey(table, []any{1}, 5, "moved", gone)))
	t.verify("after a key change by a key-only old row")
}
