package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	results "github.com/replicant-sidecar/replicant-sidecar/conformance/report"
)

// conformanceOutput is where a run's results go.
type conformanceOutput struct {
	out      io.Writer
	format   string
	terminal *results.Terminal
	reports  []string
	failed   error
}

func newConformanceOutput(cmd *cobra.Command, f *conformanceFlags) (*conformanceOutput, error) {
	o := &conformanceOutput{out: cmd.OutOrStdout(), format: f.output, reports: f.reports}
	switch f.output {
	case "text":
		o.terminal = &results.Terminal{W: o.out, Color: colorful(o.out), Verbose: f.verbose}
	case "jsonl", "tap", "junit", "markdown":
	default:
		return nil, &usageError{"-o is text, jsonl, tap, junit or markdown"}
	}
	for _, r := range f.reports {
		if err := checkReport(r); err != nil {
			return nil, misuse(cmd.ErrOrStderr(), err)
		}
	}
	return o, nil
}

// colorful reports whether w is a terminal whose user did not ask for plain text.
func colorful(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && isTerminal(w)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// observe writes one result where the format allows it.
func (o *conformanceOutput) observe(r conformance.Result) {
	switch {
	case o.terminal != nil:
		o.terminal.Result(r)
	case o.format == "jsonl":
		o.failed = errors.Join(o.failed, results.CaseLine(o.out, &r))
	}
}

// finish writes the end, and the reports into their files.
func (o *conformanceOutput) finish(s *conformance.Summary) error {
	switch {
	case o.terminal != nil:
		o.terminal.Summary(s)
	case o.format == "jsonl":
		o.failed = errors.Join(o.failed, results.RunLine(o.out, s))
	default:
		o.failed = errors.Join(o.failed, results.Write(o.out, o.format, s))
	}
	return errors.Join(o.failed, writeReports(s, o.reports))
}

func checkReport(text string) error {
	format, path, _ := strings.Cut(text, "=")
	if path == "" {
		return fmt.Errorf("--report is FORMAT=FILE, as in html=report.html")
	}
	for _, known := range results.Formats() {
		if known == format {
			return nil
		}
	}
	return fmt.Errorf("--report: no format %q; there are %s", format, strings.Join(results.Formats(), ", "))
}

func writeReports(s *conformance.Summary, reports []string) error {
	for _, text := range reports {
		if err := checkReport(text); err != nil {
			return err
		}
		format, path, _ := strings.Cut(text, "=")
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		if err := errors.Join(results.Write(f, format, s), f.Close()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func readReport(path string) (*conformance.Summary, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := results.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
