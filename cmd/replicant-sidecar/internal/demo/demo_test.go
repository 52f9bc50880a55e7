package demo

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
)

// short is a demonstration of a few seconds.
func short(t *testing.T, change func(*Options)) *Report {
	t.Helper()
	o := Options{
		For: 3 * time.Second, Rate: 100, Seed: 7, Sidecar: buildSidecar(t), Out: t.Output(),
		Postgres: pgembed.Options{Find: pgembed.FindOptions{Checkout: true}},
	}
	change(&o)
	report, err := Run(t.Context(), o)
	require.NoError(t, err)
	return report
}

func TestExact(t *testing.T) {
	r := short(t, func(*Options) {})
	require.Equal(t, VerdictExact, r.Verdict, r.Why)
	require.Positive(t, r.Rows)
	require.Len(t, r.Tables, len(tables))
	require.Positive(t, r.Written.Transactions)
	require.Empty(t, r.Kills.Landed)
}

// TestOneWrongCell plants a wrong value in the sink behind its back: the comparison must
// see it, or its "exact" means nothing.
func TestOneWrongCell(t *testing.T) {
	r := short(t, func(o *Options) {
		o.SpoilSink = func(dir string) error {
			return spoil(filepath.Join(dir, sinkFile), `update "public.customers" set name = name || ' ' where id = (select max(id) from "public.customers")`)
		}
	})
	require.Equal(t, VerdictDifferent, r.Verdict)
	require.Contains(t, r.Why, `"customers"`)
	require.Contains(t, r.Why, `"name"`)
	require.NotContains(t, r.Why, "Customer", "no row value in a verdict")
}

func TestOneMissingRow(t *testing.T) {
	r := short(t, func(o *Options) {
		o.SpoilSink = func(dir string) error {
			return spoil(filepath.Join(dir, sinkFile), `delete from "public.orders" where id = (select max(id) from "public.orders")`)
		}
	})
	require.Equal(t, VerdictDifferent, r.Verdict)
	require.Contains(t, r.Why, `"orders"`)
}

// spoil changes the sink's file with the interpreter that wrote it.
func spoil(file, statement string) error {
	home, err := exampleDir()
	if err != nil {
		return err
	}
	script := `import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
changed = db.execute(sys.argv[2]).rowcount
db.commit()
sys.exit(0 if changed == 1 else f"{changed} rows changed: " + str(db.execute("select name from sqlite_master").fetchall()))`
	out, err := exec.Command(filepath.Join(home, ".venv", "bin", "python"), "-c", script, file, statement).CombinedOutput()
	if err != nil {
		return errors.New(string(out))
	}
	return nil
}

func TestSinkThatNobodyCanRead(t *testing.T) {
	r := short(t, func(o *Options) {
		run, _, err := pythonSink(t.TempDir())
		require.NoError(t, err)
		o.Sink = run
	})
	require.Equal(t, VerdictNotCompared, r.Verdict)
	r = short(t, func(o *Options) {
		run, _, err := pythonSink(t.TempDir())
		require.NoError(t, err)
		o.Sink, o.ReadSink = run, []string{"/bin/false"}
	})
	require.Equal(t, VerdictNotCompared, r.Verdict)
}

func TestSinkThatDoesNotStayUp(t *testing.T) {
	_, err := Run(t.Context(), Options{
		For: time.Second, Rate: 10, Sidecar: buildSidecar(t), Out: t.Output(), Sink: []string{"/bin/false"},
		Postgres: pgembed.Options{Find: pgembed.FindOptions{Checkout: true}},
	})
	require.ErrorContains(t, err, "the sink does not stay up")
}

// TestVerdict: what stands against "exact", one by one.
func TestVerdict(t *testing.T) {
	one := table{columns: []string{"id"}, rows: []row{{[]byte("1")}, {[]byte("2")}}}
	for name, c := range map[string]struct {
		sink table
		want string
	}{
		"equal":            {table{columns: []string{"id"}, rows: []row{{[]byte("1")}, {[]byte("2")}}}, ""},
		"another value":    {table{columns: []string{"id"}, rows: []row{{[]byte("1")}, {[]byte("3")}}}, "differs in column"},
		"NULL for empty":   {table{columns: []string{"id"}, rows: []row{{[]byte("1")}, {nil}}}, "differs in column"},
		"a row less":       {table{columns: []string{"id"}, rows: []row{{[]byte("1")}}}, "2 rows at the source, 1 at the sink"},
		"another column":   {table{columns: []string{"no"}, rows: one.rows}, "the source has columns"},
		"no such table":    {table{}, "the source has columns"},
		"a value too many": {table{columns: []string{"id"}, rows: []row{{[]byte("1")}, {[]byte("2"), nil}}}, "columns at the source"},
	} {
		why := difference(one, c.sink)
		if c.want == "" {
			require.Empty(t, why, name)
			continue
		}
		require.Contains(t, why, c.want, name)
	}
	empty := table{columns: []string{"v"}, rows: []row{{[]byte("")}}}
	null := table{columns: []string{"v"}, rows: []row{{nil}}}
	require.NotEmpty(t, difference(empty, null))
}

func TestTooFewRowsOrAnEmptyTable(t *testing.T) {
	full := func(n int) table {
		tt := table{columns: []string{"id"}}
		for i := range n {
			tt.rows = append(tt.rows, row{[]byte{byte(i)}})
		}
		return tt
	}
	judge := func(rate int, rows map[string]table) *Report {
		r := &Report{Rate: rate, Seconds: 10}
		r.judge(rows, rows)
		return r
	}
	same := map[string]table{}
	for _, name := range tables {
		same[name] = full(10)
	}
	require.Equal(t, VerdictExact, judge(12, same).Verdict)
	few := judge(13, same)
	require.Equal(t, VerdictDifferent, few.Verdict)
	require.Contains(t, few.Why, "at least")
	same["orders"] = table{columns: []string{"id"}}
	require.Contains(t, judge(1, same).Why, "is empty")
}

func TestChaosKillsBoth(t *testing.T) {
	r := short(t, func(o *Options) { o.Chaos, o.For = true, 8*time.Second })
	require.Equal(t, VerdictExact, r.Verdict, r.Why)
	require.GreaterOrEqual(t, r.Kills.Sidecar, 1)
	require.GreaterOrEqual(t, r.Kills.Sink, 1)
	for _, k := range r.Kills.Landed {
		require.Positive(t, k.PID)
	}
	require.True(t, strings.HasPrefix(r.Summary(), "exact: "), r.Summary())
}
