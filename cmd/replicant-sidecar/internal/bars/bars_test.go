package bars

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

func running() *pipeline.CopyStatus {
	return &pipeline.CopyStatus{Phase: pipeline.CopyRuns, Since: began, Rows: 5_510, Tables: []pipeline.TableProgress{
		{Schema: "public", Table: "z", State: pipeline.TableDone, Rows: 1_000_000, Earlier: true},
		{Schema: "public", Table: "a", State: pipeline.TableDone, Rows: 3, EstimatedRows: 3},
		{Schema: "public", Table: "b\x1b[31m", State: pipeline.TableCopying, Rows: 500, EstimatedRows: 1000},
		{Schema: "public", Table: "c", State: pipeline.TableCopying, Rows: 5000, EstimatedRows: 1000},
		{Schema: "public", Table: "d", State: pipeline.TableCopying, Rows: 7, EstimatedRows: -1},
		{Schema: "public", Table: "e", State: pipeline.TablePending},
	}}
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestBars(t *testing.T) {
	var m Meter
	require.Empty(t, m.Bars(nil, 80, began))
	require.Empty(t, m.Bars(&pipeline.CopyStatus{Phase: pipeline.CopyDone}, 80, began))
	c := running()
	require.Equal(t, []string{
		"copy: 1 of 5 tables, 5.5k rows, for 1m05s",
		"  public.b?[31m            [########--------] 50%  500 of about 1.0k rows",
		"  public.c                 [###############-] 99%  5.0k of about 1.0k rows",
		"  public.d                  7 rows",
	}, m.Bars(c, 79, began.Add(65*time.Second)), "an estimate may be too low, and one is missing")
	c.Phase, c.Waiting, c.Failing = pipeline.CopyWaitsForLocks, "somebody is changing table public.a", "no route"
	c.HeldBytes, c.XminAge = 300<<20, 12_345
	require.Equal(t, []string{
		"copy: locks, 1 of 5 tables, 5.5k rows", "  failing: no route", "  waiting: somebody is changing table public.a",
		"  at the source: 300.0 MiB of WAL held, clean-up held back for 12.3k transactions",
	}, m.Bars(c, 119, began)[:4])
	c.Tables = make([]pipeline.TableProgress, 100)
	for i := range c.Tables {
		c.Tables[i] = pipeline.TableProgress{Schema: strings.Repeat("s", 63), Table: strings.Repeat("t", 63), State: pipeline.TableCopying, EstimatedRows: int64(i)}
	}
	require.Len(t, m.Bars(c, 80, began), 1+3+barsMax+1)
	for width := widthMin; width < 200; width++ {
		for _, line := range m.Bars(c, width, began) {
			require.LessOrEqual(t, utf8.RuneCountInString(line), width, "a line that is broken stays on the screen")
		}
	}
}

// TestMeter: the speed is that of the last while, and nothing is foretold without it.
func TestMeter(t *testing.T) {
	var m Meter
	c := &pipeline.CopyStatus{Phase: pipeline.CopyRuns, Since: began, Rows: 100_000, Tables: []pipeline.TableProgress{
		{Table: "a", State: pipeline.TableCopying, Rows: 100_000, EstimatedRows: 1_000_000},
	}}
	at := began
	look := func(after time.Duration, rows int64) string {
		at, c.Rows, c.Tables[0].Rows = at.Add(after), rows, rows
		return m.Plain(c, at)[0]
	}
	require.Equal(t, "copy: 0 of 1 tables, 10% of about 1.0M rows, for 0s", look(0, 100_000))
	require.Equal(t, "copy: 0 of 1 tables, 20% of about 1.0M rows, 10.0k rows/s, about 1m20s left, for 10s", look(10*time.Second, 200_000))
	require.Equal(t, "copy: 0 of 1 tables, 20% of about 1.0M rows, 5.0k rows/s, about 2m40s left, for 20s", look(10*time.Second, 200_000))
	require.Equal(t, "copy: 0 of 1 tables, 20% of about 1.0M rows, for 40s", look(20*time.Second, 200_000))
	require.Equal(t, "copy: 0 of 1 tables, 0% of about 1.0M rows, for 50s", look(10*time.Second, 10), "it began anew")
	require.Equal(t, []string{"no table is being copied"}, Summary(nil))
	require.Equal(t, []string{"public.a: done, 3 rows", "copy: copying, 5510 rows"}, append(Summary(running())[:1], Summary(running())[5:]...))
}

// Lines of the log stand above the bars, which are drawn again below them.
func TestScreen(t *testing.T) {
	var out bytes.Buffer
	s := NewScreen(&out)
	lines := s.Through(&out)
	write := func(text string) {
		n, err := lines.Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, len(text), n)
	}
	write("one\n")
	s.Draw([]string{"bar 1", "bar 2"})
	write("two\n")
	s.Draw([]string{"bar 3"})
	s.Draw(nil)
	write("three\n")
	require.Equal(t, "one\nbar 1\nbar 2\n\x1b[2A\x1b[Jtwo\nbar 1\nbar 2\n\x1b[2A\x1b[Jbar 3\n\x1b[1A\x1b[Jthree\n", out.String())
}
