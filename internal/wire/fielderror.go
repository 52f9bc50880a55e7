package wire

import (
	"fmt"
	"strconv"
)

// FieldError says which field of a message breaks the contract, and how. It holds no
// value of the message.
type FieldError struct {
	// Path leads to the field, as in "transactions[2].changes[0].relation_index".
	Path    string
	Problem string
}

// Error is path and problem.
func (e *FieldError) Error() string { return e.Path + ": " + e.Problem }

func broken(path, format string, args ...any) *FieldError {
	return &FieldError{Path: path, Problem: fmt.Sprintf(format, args...)}
}

// under puts the error below a field of the message around it.
func (e *FieldError) under(parent string) *FieldError {
	if e == nil {
		return nil
	}
	if e.Path == "" {
		return &FieldError{Path: parent, Problem: e.Problem}
	}
	return &FieldError{Path: parent + "." + e.Path, Problem: e.Problem}
}

// underIndex puts the error below one entry of a repeated field.
func (e *FieldError) underIndex(parent string, i int) *FieldError {
	return e.under(parent + "[" + strconv.Itoa(i) + "]")
}

const (
	problemNotProtobuf = "not a valid protobuf message"
	problemMissing     = "missing"
	problemZero        = "present but 0; a position that is not known is left out"
)
