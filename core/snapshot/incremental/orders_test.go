package incremental

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestResolve(t *testing.T) {
	table := func(oid uint32, schema, name string) Member { return Member{OID: oid, Schema: schema, Name: name} }
	members := []Member{
		table(1, "public", "orders"), table(2, "shop", "items"), table(3, "shop", "orders"), table(4, "My.Schema", `a"b`),
		table(5, "public", "Mixed"), table(6, "public", "dotted.name"), table(7, "dotted", "name"), table(8, "public", "mixed2"),
	}
	for name, want := range map[string]uint32{
		"items": 2, "ITEMS": 2, "shop.items": 2, "Shop.Items": 2, `"shop".items`: 2, `"Items"`: 0, "public.items": 0, "shop.orders": 3,
		`"My.Schema"."a""b"`: 4, `My.Schema.a"b`: 4, `a"b`: 4, `"a""b"`: 4, "Mixed": 5, `"Mixed"`: 5, "mixed": 0, "public.Mixed": 5,
		`public."dotted.name"`: 6, "public.dotted.name": 6, `dotted."name"`: 7, "name": 7, "dotted.name": 7, "MIXED2": 8,
		"": 0, ".": 0, "shop.": 0, ".items": 0, `"items`: 0, `""`: 0, `"shop"."items"x`: 0, "a.b.c": 0,
	} {
		got, err := Resolve(name, members)
		require.Equal(t, want, got.OID, name)
		require.Equal(t, want == 0, err != nil, name)
		if err == nil {
			again, err := Resolve(got.Quoted(), members)
			require.NoError(t, err)
			require.Equal(t, got, again, "its quoted name is of it alone")
		}
	}
	_, err := Resolve("orders", members)
	require.EqualError(t, err, "orders may be any of public.orders, shop.orders; name one of these as it is here")
}

func orderly(statuses ...Status) *Run {
	s := State{Generation: 4, Kind: KindInitial, Floor: 1, Listed: true}
	for i, status := range statuses {
		m := Member{OID: uint32(i + 1), Schema: "s", Name: string(rune('a' + i)), Key: []string{"k"}, KeyTypes: []uint32{23}}
		if i == 2 {
			m.Key, m.KeyTypes = nil, nil
		}
		s.Tables = append(s.Tables, Table{Member: m, Status: status, Rows: 9})
		s.Complete = true
	}
	return New(s, Settings{}, time.Now())
}

func TestOrders(t *testing.T) {
	next := [16]byte{7}
	again := func(names ...string) func(*Run) error {
		return func(r *Run) error { _, err := r.Again(names, false, next); return err }
	}
	cancel := func(names ...string) func(*Run) error {
		return func(r *Run) error { _, err := r.Cancel(names); return err }
	}
	pause := func(name string) func(*Run) error { return func(r *Run) error { return r.Pause(name) } }
	resume := func(name string) func(*Run) error { return func(r *Run) error { return r.Resume(name) } }
	for name, c := range map[string]struct {
		run   *Run
		do    []func(*Run) error
		words string // of the last one's refusal
	}{
		"a copied table":                {orderly(Done, Done), []func(*Run) error{again("s.a")}, ""},
		"several, one of them twice":    {orderly(Done, Done), []func(*Run) error{again("a", "b", "s.a")}, ""},
		"a cancelled one":               {orderly(Cancelled), []func(*Run) error{again("a")}, ""},
		"one that is gone":              {orderly(Gone), []func(*Run) error{again("a")}, "not a table of the publications"},
		"none":                          {orderly(Done), []func(*Run) error{again()}, "no table was named"},
		"two at a time":                 {orderly(Done, Done), []func(*Run) error{again("a"), again("b")}, "a copy of s.a is running"},
		"while paused":                  {orderly(Done, Done), []func(*Run) error{again("a"), pause(""), again("b")}, "paused"},
		"pause and resume":              {orderly(Done), []func(*Run) error{again("a"), pause("a"), pause(""), resume("s.a")}, ""},
		"pause nothing":                 {orderly(Done), []func(*Run) error{pause("")}, "no table is being copied"},
		"pause one that is done":        {orderly(Done, Pending), []func(*Run) error{pause("a")}, "s.a is not being copied"},
		"pause one of two":              {orderly(Pending, Pending), []func(*Run) error{pause("a")}, "s.b too"},
		"resume what runs":              {orderly(Pending), []func(*Run) error{resume("")}, "no copy is paused"},
		"cancel":                        {orderly(Pending, Copying), []func(*Run) error{cancel("a", "b")}, ""},
		"cancel one that is done":       {orderly(Pending, Done), []func(*Run) error{cancel("a", "b")}, "s.b is not being copied"},
		"cancelled, and paused no more": {orderly(Pending), []func(*Run) error{pause(""), cancel("a"), resume("")}, "no copy is paused"},
	} {
		for i, do := range c.do {
			err := do(c.run)
			if i < len(c.do)-1 || c.words == "" {
				require.NoError(t, err, name)
				require.True(t, c.run.NoteDue(), "%s: it holds once it is durable", name)
				c.run.Note()
				continue
			}
			require.ErrorContains(t, err, c.words, name)
			require.False(t, c.run.NoteDue(), "%s: nothing has changed", name)
		}
	}
}

// A table is swept once, in the run that it was copied again in: a later repair of single
// rows, when another table has raised the generation, must not remove what is older.
func TestSweepEndsWithItsRun(t *testing.T) {
	r := orderly(Done, Done, Done)
	_, err := r.Again([]string{"a", "c"}, false, [16]byte{7})
	require.NoError(t, err)
	s := r.encode(&Step{kind: stepNote})
	require.EqualValues(t, 5, s.Generation)
	require.Equal(t, KindAgain, s.Kind)
	require.True(t, s.Tables[0].Sweep && !s.Tables[0].Replace && s.Tables[0].Status == Pending && s.Tables[0].Rows == 0)
	require.Equal(t, Everything(), s.Tables[0].Ranges)
	require.Equal(t, Done, s.Tables[1].Status)
	require.True(t, s.Tables[2].Replace && !s.Tables[2].Sweep, "without a key by replacement")
	a := r.tables[0]
	clear := r.taken(&Step{kind: stepClear, table: a, status: Copying})
	require.False(t, r.Unit(clear).First, "readers never see an empty table")
	r.Stored(clear)
	a.ranges = nil
	last := r.taken(&Step{kind: stepLast, table: a, status: Done})
	u := r.Unit(last)
	require.True(t, u.Last && u.Sweep)
	durable, err := Decode(u.Token)
	require.NoError(t, err)
	require.False(t, durable.Tables[0].Sweep)
	r.Stored(last)
	require.False(t, a.sweep)
}

// What was seen before all windows were given up says nothing of the transactions that were
// forgotten then.
func TestLookOfAnEarlierEpochIsNotTaken(t *testing.T) {
	r := orderly(Pending)
	r.looked = true // at the publications
	old, ok := r.Next()
	require.True(t, ok && old.Kind == JobLook)
	require.NoError(t, r.Pause(""))
	_, ok = r.Next()
	require.False(t, ok, "nothing is read while it is paused")
	require.NoError(t, r.Resume(""))
	look, ok := r.Next()
	require.True(t, ok && look.Kind == JobLook && look.ID != old.ID)
	r.Looked(Look{ID: old.ID, Found: true, Member: old.Table})
	require.False(t, r.tables[0].waited)
	r.Looked(Look{ID: look.ID, Found: true, Member: look.Table})
	require.True(t, r.tables[0].waited)
}

// TestBegunWithout: the tables of a stream that began without a copy count as copied.
func TestBegunWithout(t *testing.T) {
	r := New(State{Generation: 1, Kind: KindRepair, Floor: 1, Complete: true}, Settings{}, time.Now())
	job, ok := r.Next()
	require.True(t, ok && job.Kind == JobList)
	require.False(t, r.Settled())
	require.NoError(t, r.Listed([]Member{{OID: 1, Schema: "s", Name: "a", Key: []string{"k"}, KeyTypes: []uint32{23}}}, [16]byte{}))
	require.False(t, r.Active())
	require.True(t, r.Settled())
	require.Equal(t, Done, r.Tables()[0].Status)
}
