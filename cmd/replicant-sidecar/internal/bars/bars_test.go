package bars

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

func TestLines(t *testing.T) {
	require.Empty(t, Lines(nil))
	require.Empty(t, Lines(&pipeline.CopyStatus{Phase: pipeline.CopyDone}))
	c := &pipeline.CopyStatus{Phase: pipeline.CopyRuns, Rows: 1_234_567, Tables: []pipeline.TableProgress{
		{Schema: "public", Table: "a", State: pipeline.TableDone, Rows: 3},
		{Schema: "public", Table: "b\x1b[31m", State: pipeline.TableCopying, Rows: 500, EstimatedRows: 1000},
		{Schema: "public", Table: "c", State: pipeline.TableCopying, Rows: 5000, EstimatedRows: 1000},
		{Schema: "public", Table: "d", State: pipeline.TableCopying, Rows: 7, EstimatedRows: -1},
		{Schema: "public", Table: "e", State: pipeline.TablePending},
	}}
	require.Equal(t, []string{
		"copy: copying, 1 of 5 tables, 1.2M rows",
		"  public.b?[31m                    [############------------] 50%  500 of about 1.0k rows",
		"  public.c                         [#######################-] 99%  5.0k of about 1.0k rows",
		"  public.d                         7 rows",
	}, Lines(c))
	c.Phase, c.Waiting = pipeline.CopyWaitsForLocks, "somebody is changing table public.a"
	require.Contains(t, Lines(c)[0], "somebody is changing table public.a")
	c.Tables = make([]pipeline.TableProgress, 100)
	for i := range c.Tables {
		c.Tables[i].State = pipeline.TableCopying
	}
	require.Len(t, Lines(c), barsMax+2)
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
