package report

import (
	"bytes"
	"encoding/xml"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

var update = flag.Bool("update", false, "write testdata anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func written(t *testing.T, format string, s *conformance.Summary) string {
	var b bytes.Buffer
	require.NoError(t, Write(&b, format, s))
	return b.String()
}

func TestGolden(t *testing.T) {
	for _, format := range Formats() {
		got := written(t, format, sample())
		path := filepath.Join("testdata", format+".golden")
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), got, "%s: run with -update and look at the difference", format)
	}
}

func TestJSONLinesComeBack(t *testing.T) {
	s := sample()
	back, err := Read(strings.NewReader(written(t, "jsonl", s)))
	require.NoError(t, err)
	require.Equal(t, s, back)
	for _, format := range Formats() {
		require.Equal(t, written(t, format, s), written(t, format, back))
	}
}

func TestARunThatWasInterruptedIsNoReport(t *testing.T) {
	whole := written(t, "jsonl", sample())
	cases := whole[:strings.LastIndex(strings.TrimSpace(whole), "\n")+1]
	for text, want := range map[string]string{
		cases: "interrupted", "": "interrupted", cases + "{\"schema\":": "no line of a report",
		`{"schema":2}`: "schema 2",
	} {
		_, err := Read(strings.NewReader(text))
		require.ErrorContains(t, err, want)
	}
}

func TestJUnitIsXMLWithTheRightCounts(t *testing.T) {
	var got suites
	text := written(t, "junit", sample())
	require.NoError(t, xml.Unmarshal([]byte(text), &got))
	require.Equal(t, []int{10, 2, 1, 4}, []int{got.Tests, got.Failures, got.Errors, got.Skipped})
	require.NotContains(t, text, "<script>")
}

func TestTAPHasOnePlanAndNoStrayDirective(t *testing.T) {
	text := written(t, "tap", sample())
	require.Contains(t, text, "\n1..10\n")
	require.Len(t, regexp.MustCompile(`(?m)^(not )?ok \d+ - `).FindAllString(text, -1), 10)
	require.Contains(t, text, `store is cut \# at each point # SKIP not possible here: no proxy`)
	require.Contains(t, text, "not ok 10 - DLN-002 100 cancelled calls"+tapExpected)
}

func TestThePageStandsAlone(t *testing.T) {
	text := written(t, "html", sample())
	for _, foreign := range []string{"<script", "src=", "href=", "url(", "@import", "http:", "https:", "\x00", "\x1b"} {
		require.NotContains(t, text, foreign)
	}
	require.Contains(t, text, "my &lt;sink&gt;")
	require.Equal(t, 1, strings.Count(text, `<i class="torn" title=`))
	require.Equal(t, 47, strings.Count(text, `<i class="before" title=`)+strings.Count(text, `<i class="after" title=`)-7)
}

func TestVerdicts(t *testing.T) {
	require.Contains(t, written(t, "badge", sample()), ">not conformant<")
	require.Contains(t, written(t, "badge", green()), ">conformant, sampled<")
	s := green()
	s.Exhaustive = true
	require.Contains(t, written(t, "badge", s), ">conformant, exhaustive<")
	require.Contains(t, written(t, "text", s), "CONFORMANT, EVERY CRASH POINT VISITED")
	s.Conformant, s.Why = false, []string{"no crash points were visited"}
	require.Contains(t, written(t, "badge", s), ">incomplete<")
	require.Contains(t, written(t, "text", s), "NO FAILURE, NOT CONFORMANT")
	require.Contains(t, written(t, "html", s), `class="hero warn"`)
	s.Exit = conformance.ExitHarness // only broken: nothing is said of the sink
	require.Contains(t, written(t, "badge", s), ">not found out<")
	require.Contains(t, written(t, "text", s), "NOT FOUND OUT")
}

// TestCallsInARowAreOneLine: what a sink answered while it started, ten times, would push the
// call in question out of sight.
func TestCallsInARowAreOneLine(t *testing.T) {
	of := func(what, code, position string) conformance.Step {
		return conformance.Step{What: what, Code: code, Position: position}
	}
	var steps []conformance.Step
	for range 10 {
		steps = append(steps, of("kill", "", ""), of("start", "", ""), of("GetCapabilities", "Unavailable", ""), of("GetCapabilities", "OK", ""))
	}
	require.NotContains(t, stepsText(steps), "Unavailable")
	steps = []conformance.Step{of("HandleBatch", "OK", "0/67"), of("HandleBatch", "OK", "0/68")}
	for range 10 {
		steps = append(steps, of("Checkpoint", "OK", "0/68"))
	}
	for range 20 {
		steps = append(steps, of("GetCapabilities", "Unavailable", ""))
	}
	text := stepsText(steps)
	require.Equal(t, 4, len(strings.Split(text, "\n")), text)
	require.Contains(t, text, "HandleBatch  OK  0/67")
	require.Contains(t, text, "Checkpoint  OK  0/68  x10")
	require.Contains(t, text, "GetCapabilities  Unavailable")
}

func TestAnUnknownFormatIsNamed(t *testing.T) {
	require.EqualError(t, Write(&bytes.Buffer{}, "pdf", sample()),
		`no report format "pdf"; there are badge, html, json`+"l, junit, markdown, tap, text")
}
