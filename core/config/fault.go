package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Fault is one thing that is wrong with one setting. It holds no value of a secret key.
type Fault struct {
	// Key is the path, such as "sink.wait"; empty for a fault of the file as a whole.
	Key string
	// Place is the file, environment variable or flag; empty when the value is not set.
	Place string
	// Line and Column count from 1; 0 outside a file.
	Line, Column int
	// Text says what is wrong and which form is accepted.
	Text string
	// Snippet is the surrounding lines with a caret under the place; secrets masked.
	Snippet string
}

// Error is one line: place, key, text.
func (f *Fault) Error() string {
	var b strings.Builder
	if f.Place != "" {
		b.WriteString(f.Place)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
		}
		b.WriteString(": ")
	}
	if f.Key != "" {
		b.WriteString(f.Key + " ")
	}
	b.WriteString(f.Text)
	return b.String()
}

// Faults takes a start error apart into its faults, in order.
func Faults(err error) []*Fault {
	if f, ok := err.(*Fault); ok { //nolint:errorlint // walked by hand below
		return []*Fault{f}
	}
	var all []*Fault
	switch e := err.(type) { //nolint:errorlint // walking the tree is the point
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			all = append(all, Faults(inner)...)
		}
	case interface{ Unwrap() error }:
		all = Faults(e.Unwrap())
	}
	return all
}

// halt makes the start error config_invalid from faults; nil when there are none.
func halt(faults []*Fault) error {
	if len(faults) == 0 {
		return nil
	}
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}
	h := core.NewHalt(core.HaltConfigInvalid, "config", "%d faults, the first: %s", len(faults), faults[0])
	if len(faults) == 1 {
		h.Detail = faults[0].Error()
	}
	h.Err = errors.Join(errs...)
	return h
}
