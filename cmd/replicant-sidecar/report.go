package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/config"
)

// report tells people how the program ended and returns the exit code.
func report(w io.Writer, err error) int {
	var exit *exitError
	var ran *ranError
	switch {
	case err == nil:
		return core.ExitDrained
	case errors.As(err, &exit):
		return exit.code
	case isHalt(err):
		halt, _ := core.AsHalt(err)
		tell(w, halt)
	case errors.As(err, &ran):
		fmt.Fprintf(w, "error: %s\n", ran)
	default:
		fmt.Fprintf(w, "error: %s\nSee: replicant-sidecar --help\n", unsecret(err.Error()))
		return core.ExitUsage
	}
	return core.ExitCode(err)
}

var secretive = regexp.MustCompile(`(?i)://|@|=|passw`)

// unsecret keeps a word of the command line that may hold a password off the screen:
// an error in the use of the program quotes what it did not understand.
func unsecret(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		if secretive.MatchString(word) {
			words[i] = "(not shown)"
		}
	}
	return strings.Join(words, " ")
}

// tell prints a halt: what happened, what it means, what to do, in that order.
func tell(w io.Writer, halt *core.Halt) {
	if halt.Code == core.HaltConfigInvalid {
		if faults := config.Faults(halt.Err); len(faults) > 0 {
			tellFaults(w, faults)
			return
		}
	}
	fmt.Fprintf(w, "error: %s\n", halt)
	if text, ok := core.Explain(halt.Code); ok {
		tellText(w, text)
		fmt.Fprintf(w, "See: replicant-sidecar explain %s\n", halt.Code)
	}
}

func tellText(w io.Writer, text core.HaltText) {
	fmt.Fprintf(w, "  what happened:  %s\n", wrap(text.Happened))
	fmt.Fprintf(w, "  what it means:  %s\n", wrap(text.Means))
	fmt.Fprintf(w, "  what to do:     %s\n", wrap(text.Do))
}

// wrap breaks a text so that it stands in a column right of its heading.
func wrap(text string) string {
	const width, left = 78, 18
	var b strings.Builder
	column := left
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > left+width:
			b.WriteString("\n" + strings.Repeat(" ", left))
			column = left
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

func tellFaults(w io.Writer, faults []*config.Fault) {
	for _, f := range faults {
		fmt.Fprintf(w, "error: %s\n%s", f, f.Snippet)
	}
	what := "1 fault"
	if len(faults) > 1 {
		what = fmt.Sprintf("%d faults", len(faults))
	}
	fmt.Fprintf(w, "%s in the configuration; nothing was started. See: docs/configuration.md\n", what)
}
