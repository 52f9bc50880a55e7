package fidelity

// Type is one type as a column has it, with values as literals.
type Type struct {
	// Name is the type in SQL.
	Name   string
	Values []string
	// Exprs are further values, as SQL.
	Exprs []string
	// Since is the first major that has it; 0 all.
	Since int
	// NoArray: there is no array of it.
	NoArray bool
}

// Setup makes extensions, types and roles that the types need, in a database of their own.
var Setup = []string{
	`CREATE EXTENSION citext`, `CREATE EXTENSION hstore`, `CREATE EXTENSION ltree`, `CREATE EXTENSION cube`, `CREATE EXTENSION seg`,
	`CREATE EXTENSION isn`, `CREATE EXTENSION lo`, `CREATE EXTENSION intarray`, `CREATE EXTENSION earthdistance`, `CREATE EXTENSION tablefunc`,
	`CREATE SCHEMA "odd schema"`,
	`CREATE TYPE mood AS ENUM ('sad', 'ok, "really"', 'it''s', 'ünïcode', '')`,
	`CREATE TYPE "odd schema"."Odd Type" AS ENUM ('A', 'a')`,
	`CREATE DOMAIN posint AS int CHECK (VALUE > 0)`, `CREATE DOMAIN small AS posint CHECK (VALUE < 100)`,
	`CREATE DOMAIN code AS varchar(8)`, `CREATE DOMAIN amount AS numeric(12, 4)`, `CREATE DOMAIN day AS date`, `CREATE DOMAIN moment AS timestamptz(3)`,
	`CREATE DOMAIN ints AS int[]`, `CREATE DOMAIN moods AS mood`, `CREATE DOMAIN raw AS bytea`, `CREATE DOMAIN span AS interval`,
	`CREATE TYPE pair AS (a int, b text)`,
	`CREATE TYPE nested AS (p pair, list pair[], "Odd Name" mood)`,
	`CREATE TYPE clock AS (d date, t time, tz timetz, ts timestamp, tstz timestamptz, i interval, r tstzrange)`,
	`CREATE TYPE bag AS (f4 float4, f8 float8, n numeric, m money, b bytea, j jsonb, u uuid)`,
	`CREATE DOMAIN checked AS pair CHECK (VALUE IS NULL OR (VALUE).a IS NOT NULL)`,
	`CREATE TABLE shape (x float8, y float8, label citext)`,
	`CREATE TYPE textrange AS RANGE (subtype = text, collation = "C")`,
	`CREATE TYPE floatrange AS RANGE (subtype = float8, subtype_diff = float8mi)`,
	`CREATE TYPE timerange AS RANGE (subtype = time)`,
	`CREATE TYPE citextrange AS RANGE (subtype = citext)`,
	`CREATE FUNCTION f(int, text) RETURNS int LANGUAGE sql AS 'SELECT 1'`,
	`CREATE OPERATOR === (FUNCTION = pg_catalog.int4eq, LEFTARG = int, RIGHTARG = int)`,
}

// Types is the whole table: what is built in, what is made of it, and contrib.
func Types() []Type {
	var all []Type
	for _, group := range [][]Type{numbers, texts, times, structured, geometry, system, ranges, made, contrib} {
		all = append(all, group...)
	}
	return all
}

var numbers = []Type{
	{Name: "boolean", Values: []string{"t", "f"}},
	{Name: "smallint", Values: []string{"-32768", "0", "32767"}},
	{Name: "integer", Values: []string{"-2147483648", "0", "2147483647"}},
	{Name: "bigint", Values: []string{"-9223372036854775808", "0", "9223372036854775807"}},
	{Name: "real", Values: []string{"0", "-0", "NaN", "Infinity", "-Infinity", "1e-45", "3.4028235e38", "0.1", "16777216", "1.17549435e-38"}},
	{Name: "double precision", Values: []string{
		"0", "-0", "NaN", "Infinity", "-Infinity", "5e-324", "1.7976931348623157e308", "0.1", "0.30000000000000004", "9007199254740993", "1e15", "1e16", "123456789012345678",
	}},
	{Name: "numeric", Values: []string{
		"0", "0.00", "-1.10", "NaN", "Infinity", "-Infinity", "1e-20", "123456789012345678901234567890.123456789012345678901234567890", "1e100", "0.1e-1000",
	}, Exprs: []string{`('9' || repeat('0', 5000) || '.' || repeat('7', 3000))::numeric`}},
	{Name: "numeric(10,2)", Values: []string{"1.1", "-99999999.99", "NaN", "0"}},
	{Name: "numeric(5)", Values: []string{"99999", "-1"}},
	{Name: "numeric(3,-2)", Values: []string{"12345", "-99900"}, Since: 15},
	{Name: "numeric(2,5)", Values: []string{"0.00012", "-0.00099"}, Since: 15},
	{Name: "money", Values: []string{"0", "1234567.89", "-1234567.89", "92233720368547758.07", "-92233720368547758.08", "0.01"}},
	{Name: "bit(1)", Values: []string{"0", "1"}},
	{Name: "bit(9)", Values: []string{"101010101", "000000000"}},
	{Name: "bit varying", Values: []string{"", "0", "1011"}, Exprs: []string{`repeat('10', 4000)::varbit`}},
	{Name: "bit varying(5)", Values: []string{"", "10101"}},
}

var awkward = []string{
	"", " ", "a", "NULL", "null", `\N`, `\.`, "tab\there", "new\nline", "\r\n", `back\slash`, `"quoted"`, "it's", "{a,b}", "(1,2)", "a,b",
	"ümläut ß", "日本語", "\U0001F600", "\x01\x02\x7f", "\v\f\b", "trailing  ", "null\\u0000", "__debezium_unavailable_value", "%s %d",
}

var texts = []Type{
	{Name: "text", Values: awkward, Exprs: []string{`repeat('é', 3000)`, `(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) i)`}},
	{Name: "character varying", Values: awkward},
	{Name: "character varying(12)", Values: []string{"", "twelve chars", "ü"}},
	{Name: "character(5)", Values: []string{"", "a", " a", "12345", "ü"}},
	{Name: "character", Values: []string{"", "x"}},
	{Name: `"char"`, Values: []string{"", "a", `\`, "\t", `"`}, Exprs: []string{`(-56)::"char"`}},
	{Name: "name", Values: []string{"", "a", "With Space", "012345678901234567890123456789012345678901234567890123456789012"}},
	{Name: "bytea", Values: []string{"", `\x00`, `\xdeadbeef`, `\x5c`, `\x22275c6e`, `\x000102030405060708090a0b0c0d0e0f7f80ff`},
		Exprs: []string{`(SELECT string_agg(decode(md5(i::text), 'hex'), '') FROM generate_series(1, 700) i)`}},
	{Name: "json", Values: []string{
		"null", "{}", "[]", `""`, `{"a":1,"a":2}`, `{ "b" : 1.10 ,  "a":null }`, "[1e400, 0.10, -0]", `"\u00e4\ud83d\ude00"`, `"\u0000"`, "\n[\t1 ]\n",
	}},
	{Name: "jsonb", Values: []string{"null", "{}", `""`, `{"a":1,"a":2}`, `{"b":1.10,"aa":null}`, "[1e40, 0.10, -0, 123456789012345678901234567890]", `"\u00e4\ud83d\ude00\n\t\\"`, "true"},
		Exprs: []string{`(SELECT jsonb_object_agg(i, md5(i::text)) FROM generate_series(1, 300) i)`}},
	{Name: "jsonpath", Values: []string{"$", `$.a[*] ? (@.b > 1 && @.c == "x")`, `strict $."key with space"`}},
	{Name: "xml", Values: []string{"<a/>", `<a b="c">d &amp; e</a>`, "text", "<?xml version=\"1.0\"?><r>ü</r>"}},
	{Name: "tsvector", Values: []string{"", "a:1A b:2,3C 'it''s'", `'with space' 'back\\slash'`}},
	{Name: "tsquery", Values: []string{"", "a & !b | c:*A", "'with space' <-> b", "a <3> b"}},
	{Name: "uuid", Values: []string{"00000000-0000-0000-0000-000000000000", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"}},
	{Name: "refcursor", Values: []string{"", "a cursor"}},
}

var times = []Type{
	{Name: "date", Values: []string{"infinity", "-infinity", "4713-01-01 BC", "0001-01-01", "0001-12-31 BC", "1999-12-31", "2000-02-29", "5874897-12-31", "1970-01-02"}},
	{Name: "time", Values: []string{"00:00", "24:00", "23:59:59.999999", "12:34:56.7", "01:02"}},
	{Name: "time(2)", Values: []string{"23:59:59.996", "00:00:00.004"}},
	{Name: "timetz", Values: []string{"00:00+00", "24:00-15:59:59", "12:00:00.000001+05:30", "12:00+01:02:03"}},
	{Name: "timetz(0)", Values: []string{"12:00:00.6-08"}},
	{Name: "timestamp", Values: []string{"infinity", "-infinity", "4713-01-01 00:00:00 BC", "0001-01-01 00:00", "1999-12-31 23:59:59.999999", "2000-01-02 03:04:05.1", "294276-12-31 23:59:59.999999"}},
	{Name: "timestamp(3)", Values: []string{"2001-02-03 04:05:06.7896", "2001-02-03 04:05:06"}},
	{Name: "timestamptz", Values: []string{
		"infinity", "-infinity", "4713-01-02 00:00:00+00 BC", "0001-01-01 00:00+00", "1999-12-31 23:59:59.999999+05:45", "2024-03-31 01:30:00+00", "1880-01-01 00:00:00+00", "294276-12-31 23:59:59.999999+00",
	}},
	{Name: "timestamptz(0)", Values: []string{"2001-02-03 04:05:06.7896+09"}},
	{Name: "interval", Values: []string{
		"0", "1 year 2 mons 3 days 04:05:06.789", "-1 year 2 mons -3 days 04:05:06", "-00:00:00.000001", "178000000 years", "1 mon -1 day", "999:59:59", "-1 mon +2 days -00:00:01",
	}},
	{Name: "interval year to month", Values: []string{"3 years 4 mons", "-1 mon"}},
	{Name: "interval day to second(3)", Values: []string{"1 day 02:03:04.5678", "-1 day"}},
	{Name: "interval(0)", Values: []string{"1.6 seconds"}},
}
