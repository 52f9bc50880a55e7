package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// Schema is the version of the JSON lines. It grows by fields alone; a reader ignores what
// it does not know.
const Schema = 1

// line is one of the JSON lines: {"schema":1,"case":{...}} for each case, and
// {"schema":1,"run":{...}} at the end.
type line struct {
	Schema int                  `json:"schema"`
	Case   *conformance.Result  `json:"case,omitempty"`
	Run    *conformance.Summary `json:"run,omitempty"`
}

// JSONLines writes one line for each case and one for the run.
func JSONLines(w io.Writer, s *conformance.Summary) error {
	for i := range s.Results {
		if err := CaseLine(w, &s.Results[i]); err != nil {
			return err
		}
	}
	return RunLine(w, s)
}

// CaseLine writes the line of one case, as soon as it is known.
func CaseLine(w io.Writer, r *conformance.Result) error {
	return json.NewEncoder(w).Encode(line{Schema: Schema, Case: r})
}

// RunLine writes the line of the run, without its cases.
func RunLine(w io.Writer, s *conformance.Summary) error {
	run := *s
	run.Results = nil
	return json.NewEncoder(w).Encode(line{Schema: Schema, Run: &run})
}

// Read reads JSON lines back. Lines without the one of the run are the leavings of a run
// that was interrupted, and an error.
func Read(r io.Reader) (*conformance.Summary, error) {
	var cases []conformance.Result
	var run *conformance.Summary
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d is no line of a report", n)
		}
		switch {
		case l.Schema != Schema:
			return nil, fmt.Errorf("line %d has schema %d; this program reads %d", n, l.Schema, Schema)
		case l.Case != nil:
			cases = append(cases, *l.Case)
		case l.Run != nil:
			run = l.Run
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if run == nil {
		return nil, errors.New("the report has no end: the run was interrupted")
	}
	run.Results = cases
	return run, nil
}
