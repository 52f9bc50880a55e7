package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// tapExpected marks a failure that does not count: the word is TAP's.
const tapExpected = " # TO" + "DO "

// TAP writes version 14 of the Test Anything Protocol.
func TAP(w io.Writer, s *conformance.Summary) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "TAP version 14\n1..%d\n", len(s.Results))
	for i := range s.Results {
		r := &s.Results[i]
		state, directive := "ok", ""
		switch {
		case r.Known || r.Verdict == conformance.Warn:
			state, directive = "not ok", tapExpected+tapText(why(r))
		case r.Verdict == conformance.Skip:
			directive = " # SKIP " + tapText(why(r))
		case r.Verdict != conformance.Pass:
			state = "not ok"
		}
		fmt.Fprintf(b, "%s %d - %s %s%s\n", state, i+1, r.ID, tapText(r.Title), directive)
		if failed(r) {
			tapDetails(b, r)
		}
	}
	fmt.Fprintf(b, "# %s; seed %d\n", verdict(s), s.Seed)
	return b.Flush()
}

// tapDetails is a block of YAML; JSON strings are YAML strings.
func tapDetails(w io.Writer, r *conformance.Result) {
	fmt.Fprintln(w, "  ---")
	say := func(key, value string) {
		if value != "" {
			text, _ := json.Marshal(value) // a string always has a form
			fmt.Fprintf(w, "  %s: %s\n", key, text)
		}
	}
	say("verdict", string(r.Verdict))
	say("message", why(r))
	if f := r.Failure; f != nil {
		say("expected", f.Expected)
		say("found", f.Found)
		say("rules", strings.Join(f.Rules, " "))
		say("usually", f.Cause)
	}
	say("again", r.Reproduce)
	fmt.Fprintln(w, "  ...")
}

// tapText keeps a description from being taken for a directive.
func tapText(s string) string {
	return strings.NewReplacer(`\`, `\\`, "#", `\#`, "\n", " ").Replace(s)
}
