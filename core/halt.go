package core

import (
	"errors"
	"fmt"
	"strings"
)

// HaltCode names why the sidecar stopped by decision: snake_case words, dots for pairs.
type HaltCode string

// Exit codes of the process. A supervisor must not restart on ExitUsage and ExitHalted.
const (
	ExitDrained  = 0
	ExitInternal = 1
	ExitUsage    = 2
	ExitCheck    = 3
	ExitHalted   = 4
	ExitFenced   = 5
)

// Halt is the end of a run by decision. After it nothing moves: no unit is sent and no
// position is confirmed. A restart without a change meets the same fact again.
//
// A Halt holds no row value, key, message prefix or secret, and no text of the sink's.
type Halt struct {
	Code HaltCode
	// Op is the step that found it, such as "decode" or "HandleBatch".
	Op string
	// Relation, LSN and XID say where, as far as they are known.
	Relation string
	LSN      LSN
	XID      uint32
	// Detail is one clause in our own words: names, numbers, settings.
	Detail string
	// Err is the cause. Only its type or SQLSTATE was used to build Detail.
	Err error
}

// NewHalt makes a halt with a formatted detail. The arguments must be names, numbers or
// settings.
func NewHalt(code HaltCode, op, format string, args ...any) *Halt {
	return &Halt{Code: code, Op: op, Detail: fmt.Sprintf(format, args...)}
}

// Error is one line: code, detail, place.
func (h *Halt) Error() string {
	var b strings.Builder
	b.WriteString(string(h.Code))
	if h.Detail != "" {
		b.WriteString(": " + h.Detail)
	}
	if h.Relation != "" {
		fmt.Fprintf(&b, " relation=%q", h.Relation)
	}
	if h.LSN != 0 {
		fmt.Fprintf(&b, " lsn=%s", h.LSN)
	}
	if h.XID != 0 {
		fmt.Fprintf(&b, " xid=%d", h.XID)
	}
	if h.Op != "" {
		fmt.Fprintf(&b, " (at %s)", h.Op)
	}
	return b.String()
}

// Unwrap gives the cause.
func (h *Halt) Unwrap() error { return h.Err }

// AsHalt finds the halt in an error, if there is one.
func AsHalt(err error) (*Halt, bool) {
	var h *Halt
	ok := errors.As(err, &h)
	return h, ok
}

// ExitCode is what the process exits with after err; nil is a clean drain. An error
// that is no halt is an internal one.
func ExitCode(err error) int {
	if err == nil {
		return ExitDrained
	}
	h, ok := AsHalt(err)
	if !ok {
		return ExitInternal
	}
	if text, known := Explain(h.Code); known {
		return text.Exit
	}
	return ExitInternal
}
