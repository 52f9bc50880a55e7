package cases_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// copying makes a road begin with the rows that are there.
func copying(o *pipeline.Options) {
	o.GoForwardOnly, o.Snapshot = false, checkpoint.SnapshotInitial
}

// mirrored holds what the sink's mirror has, of the copy and of the stream, against the
// source's tables.
func (r *road) mirrored() {
	r.Helper()
	for _, t := range r.published() {
		var got []string
		for _, stored := range r.sink.Rows(t.schema, t.name) {
			now := row{}
			for name, v := range stored.Values {
				now[name] = textOf(v)
			}
			got = append(got, now.String())
		}
		slices.Sort(got)
		require.Empty(r, differences(got, r.lines(t)), "%s.%s at the sink and at the source", t.schema, t.name)
	}
}

// An enum, a date and a boolean as the key, in the order of the enum's labels.
func TestN07KeysOfManyTypes(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create type st as enum ('z','a')", "create table n07(s st, d date, b bool, n int, primary key (s,d,b))",
			"insert into n07 select (array['z','a'])[1+i%2]::st, '2020-01-01'::date+i, i%3=0, i from generate_series(1,1000) i",
			"create domain stamp as timestamptz(3) not null", "create table other(k stamp, c char(5), x int, primary key (k, c))",
			"insert into other select '2020-01-01 00:00:00+05:45'::timestamptz + i * interval '1 ms', chr(97+i%3), i from generate_series(1,50) i")
		r := s.road(way{role: s.hostile(hostileSettings...), adjust: copying})
		require.Len(s, r.sink.Rows("public", "n07"), 1000)
		s.sql("delete from n07 where n=5", "update n07 set s='a' where n=6", "update n07 set n=-n where s='z' and n < 100",
			"delete from other where x % 2 = 0", "update other set c='zz' where x = 7", "insert into n07 values ('z','infinity',false,7)")
		s.mark()
		r.mirrored()
		require.Len(s, r.sink.Rows("public", "n07"), 1000)
		r.copied()
		r.drain()
	})
}

// Rows that are larger than a unit should grow to, and keys at both ends of their type.
func TestN09WideRows(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table n09(id bigint primary key, b bytea)",
			`insert into n09 values (1, decode(repeat('ab',3000000),'hex')), (9223372036854775807,'x'), (-9223372036854775808,'y'), (0, decode(repeat('cd',700000),'hex'))`)
		r := s.road(way{adjust: copying, limits: core.SinkLimits{RequestBytes: 16 << 20, PreferredBytes: 1 << 20}})
		s.sql("update n09 set b = 'z' where id = 0", "delete from n09 where id < 0")
		s.mark()
		r.mirrored()
		require.Len(s, r.sink.Rows("public", "n09"), 3)
		units := 0
		for _, u := range r.sink.SnapshotUnits() {
			if u.Relation != nil && u.Relation.Name == "n09" {
				units++
				require.LessOrEqual(s, len(u.Rows), 3)
			}
		}
		require.GreaterOrEqual(s, units, 2, "a wide row is a unit of its own")
		r.drain()
	})
}
