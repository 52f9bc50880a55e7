package conformance

import "strings"

// binaries are texts of binaries, short ones.
func binaries() map[string][]string {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	return map[string][]string{"bytea": {hexText(every), `\x`, `\x00`}}
}

// nullTexts are texts that a store may take for NULL.
var nullTexts = map[string][]string{"text": {"", "NULL", `\N`, "null", "nil", "None"}}

// integers are the limits of integers.
var integers = map[string][]string{
	"int2": {"-32768", "32767"}, "int4": {"-2147483648", "2147483647", "0"},
	"int8": {"-9223372036854775808", "9223372036854775807", "9007199254740993"},
}

// numerics are numbers that no double holds.
var numerics = map[string][]string{"numeric": {
	strings.Repeat("1234567890", 100) + "." + strings.Repeat("9", 200), "1.10", "1.1", "0.000", "-0.00000000000000000001",
	"NaN", "Infinity", "-Infinity",
}}

// floats are the shortest texts of floats.
var floats = map[string][]string{
	"float4": {"1.1754944e-38", "3.4028235e+38", "0.1", "NaN", "Infinity", "-Infinity", "-0"},
	"float8": {"5e-324", "1.7976931348623157e+308", "0.1", "0.30000000000000004", "2.2250738585072014e-308", "NaN", "-0"},
}

// datesAndTimes are what date libraries lack.
var datesAndTimes = map[string][]string{
	"date":        {"infinity", "-infinity", "4713-01-01 BC", "5874897-12-31"},
	"time":        {"24:00:00", "00:00:00.000001"},
	"timestamp":   {"294276-12-31 23:59:59.999999", "0044-03-15 12:00:00 BC", "infinity", "2024-02-29 12:34:56.123456"},
	"timestamptz": {"2024-02-29 12:34:56.1+00", "-infinity"},
	"interval":    {"1 year 2 mons -3 days +04:05:06.000007", "-00:00:00.000001", "00:00:00"},
}

// otherTypes are texts of types that somebody may parse.
var otherTypes = map[string][]string{
	"json":      {`{ "b" : 1,  "a":[1, 2] , "b":2}`, `"\u0000"`},
	"jsonb":     {`{"a": [1, 2], "b": 1.10}`},
	"int4[]":    {"{}", "{1,NULL,3}", "[2:3]={1,2}", "{{1,2},{3,4}}"},
	"text[]":    {`{"a,b","NULL",NULL,"","\"q\"","\\"}`},
	"int4range": {"[1,5)", "empty", "(,)"},
	"mood":      {"very happy"}, "positive_int": {"7"}, "address": {`("a b",,"c""d")`},
	"uuid": {"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}, "inet": {"192.168.0.1/24", "::1"}, "bit": {"10110"},
	"money": {"-$1,000.00"}, "geometry": {"0101000020E6100000000000000000F03F0000000000000040"}, "bool": {"t", "f"},
}

// sentinels are texts that something uses as a marker.
var sentinels = map[string][]string{"text": {
	"__debezium_unavailable_value", "u", "n", "a", "t", "tnua", `\x`, "(null)", "unchanged-toast", "__replicant_unchanged", "\x00absent"[1:],
}}

// oddTexts are texts that something trims, escapes or normalizes.
var oddTexts = map[string][]string{"text": {
	"😀 𐍈", "e\u0301 \u00e9", "\ufeffmark", "a\r\nb\rc\nd", "tab\there", `back\slash`, `'single' "double"`, " both ends ", "trailing\n",
	"\u200b\u202e", "a\u0000b"[:1], strings.Repeat("x", 1<<20),
}}
