package conformance

import (
	"strings"

	"google.golang.org/grpc/codes"
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
		"a text format with a NULL of its own", typed(map[string][]string{"text": {"", "NULL", `\N`, "null", "nil", "None"}}), "V-105"),
	val("VAL-002", "limits of int2, int4, int8; 2^53+1; -0", "numbers above 2^53 break in doubles",
		"a JavaScript number", typed(map[string][]string{
			"int2": {"-32768", "32767"}, "int4": {"-2147483648", "2147483647", "0"},
			"int8": {"-9223372036854775808", "9223372036854775807", "9007199254740993"},
		}), "V-101", "V-102"),
	val("VAL-003", "numeric: a thousand digits, 1.10 and 1.1, NaN, Infinity", "scale is part of a numeric",
		"a float, or a decimal type with a precision", typed(map[string][]string{"numeric": {
			strings.Repeat("1234567890", 100) + "." + strings.Repeat("9", 200), "1.10", "1.1", "0.000", "-0.00000000000000000001",
			"NaN", "Infinity", "-Infinity",
		}}), "V-101", "V-102"),
	val("VAL-004", "floats: shortest texts, denormals, NaN, infinities, -0", "the shortest text that reads back is the value",
		"a float of the wrong width", typed(map[string][]string{
			"float4": {"1.1754944e-38", "3.4028235e+38", "0.1", "NaN", "Infinity", "-Infinity", "-0"},
			"float8": {"5e-324", "1.7976931348623157e+308", "0.1", "0.30000000000000004", "2.2250738585072014e-308", "NaN", "-0"},
		}), "V-101", "V-102"),
	val("VAL-005", "text: four-byte characters, combining marks, a byte order mark, line ends, tabs, backslashes, quotes, 1 MiB",
		"text is bytes to us", "normalization, trimming, escaping, a column limit", valText, "V-101", "V-102"),
	val("VAL-006", "text that is not UTF-8", "a SQL_ASCII database has such texts",
		"a replacement character", valNotUTF8, "V-102"),
	val("VAL-007", "bytea: every byte, empty, 1 MiB", "hex text is how Postgres prints it",
		"decoding, and empty taken for nothing", valBytea, "V-101", "V-102"),
	val("VAL-008", "dates and times: infinity, BC, the year 294276, 24:00:00, microseconds, mixed intervals",
		"no other system's time type has all of them", "a date library between", typed(map[string][]string{
			"date":        {"infinity", "-infinity", "4713-01-01 BC", "5874897-12-31"},
			"time":        {"24:00:00", "00:00:00.000001"},
			"timestamp":   {"294276-12-31 23:59:59.999999", "0044-03-15 12:00:00 BC", "infinity", "2024-02-29 12:34:56.123456"},
			"timestamptz": {"2024-02-29 12:34:56.1+00", "-infinity"},
			"interval":    {"1 year 2 mons -3 days +04:05:06.000007", "-00:00:00.000001", "00:00:00"},
		}), "V-101", "V-102"),
	val("VAL-009", "json and jsonb, arrays, ranges, enums, domains, composites, uuid, inet, bits, money, an unknown type",
		"what cannot be parsed is still a text", "a parser that prints its own form", typed(map[string][]string{
			"json":      {`{ "b" : 1,  "a":[1, 2] , "b":2}`, `"\u0000"`},
			"jsonb":     {`{"a": [1, 2], "b": 1.10}`},
			"int4[]":    {"{}", "{1,NULL,3}", "[2:3]={1,2}", "{{1,2},{3,4}}"},
			"text[]":    {`{"a,b","NULL",NULL,"","\"q\"","\\"}`},
			"int4range": {"[1,5)", "empty", "(,)"},
			"mood":      {"very happy"}, "positive_int": {"7"}, "address": {`("a b",,"c""d")`},
			"uuid": {"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}, "inet": {"192.168.0.1/24", "::1"}, "bit": {"10110"},
			"money": {"-$1,000.00"}, "geometry": {"0101000020E6100000000000000000F03F0000000000000040"}, "bool": {"t", "f"},
		}), "V-101", "V-102"),
	val("VAL-010", "texts like famous sentinels, and like our letters", "a sentinel inside data is a value for somebody",
		"a marker text for unchanged or missing", typed(map[string][]string{"text": {
			"__debezium_unavailable_value", "u", "n", "a", "t", "tnua", `\x`, "(null)", "unchanged-toast", "__replicant_unchanged", "\x00absent"[1:],
		}}), "V-105"),
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
		}
	}
}

// sendValue delivers changes, or notes that the sink declines such values: then nothing
// of them may be stored.
func (t *Trial) sendValue(s *stream, kind string, changes ...change) bool {
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
	t.note("declined: %s", kind)
	t.verify("after a value of type " + kind + " was declined")
	return false
}

func valText(t *Trial) {
	typed(map[string][]string{"text": {
		"😀 𐍈", "e\u0301 \u00e9", "\ufeffmark", "a\r\nb\rc\nd", "tab\there", `back\slash`, `'single' "double"`, " both ends ", "trailing\n",
		"\u200b\u202e", "a\u0000b"[:1], strings.Repeat("x", 1<<20),
	}})(t)
}

func valNotUTF8(t *Trial) {
	table, s := t.table("ascii", "id int4 key", "v text"), t.stream()
	if t.sendValue(s, "text that is not UTF-8", insert(table, 1, []byte("caf\xe9 \xff\xfe")), insert(table, 2, []byte("\xc3"))) {
		t.verify("of text that is not UTF-8")
	}
}

func valBytea(t *Trial) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	large := make([]byte, 1<<19)
	for i := range large {
		large[i] = byte(t.rng.Uint32())
	}
	typed(map[string][]string{"bytea": {hexText(every), `\x`, `\x00`, hexText(large)}})(t)
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
