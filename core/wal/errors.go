package wal

import (
	"errors"
	"fmt"
	"time"
)

// Errors after which trying again makes sense. Test for them with errors.Is.
var (
	// ErrSlotBusy: another session streams from the slot (SQLSTATE 55006). The error
	// is a *SlotBusyError.
	ErrSlotBusy = errors.New("the replication slot is in use")
	// ErrConnectionLost: the network failed, or the server is going down, coming up or
	// has ended the session. The error is a *LostError.
	ErrConnectionLost = errors.New("the connection to Postgres is lost")
	// ErrSlotWaits: the slot was not made, since transactions that were open at its begin
	// are still open.
	ErrSlotWaits = errors.New("the slot cannot be made while older transactions are open")
	// ErrClosed: the connection was closed or finished by this side.
	ErrClosed = errors.New("the connection to Postgres was closed by this side")
)

// SlotBusyError says who holds the slot, as far as the catalog shows it to this role.
type SlotBusyError struct {
	Slot string
	// PID is the holder's process id on the server, 0 when it was gone again.
	PID uint32
	// Since, Application and Address describe the holder's session; zero when not visible,
	// the address also over a unix socket.
	Since                time.Time
	Application, Address string
}

// Error names slot and holder.
func (e *SlotBusyError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("replication slot %q is in use", e.Slot)
	}
	text := fmt.Sprintf("replication slot %q is in use by process %d of the server", e.Slot, e.PID)
	if e.Address != "" {
		text += " from " + e.Address
	}
	if !e.Since.IsZero() {
		text += ", connected since " + e.Since.Format(time.RFC3339)
	}
	return text
}

// Is makes errors.Is(err, ErrSlotBusy) true.
func (e *SlotBusyError) Is(target error) bool { return target == ErrSlotBusy }

// LostError is a lost connection: what was done, and why it ended in our own words.
type LostError struct {
	// Op is the step, such as "connect" or "read".
	Op string
	// SQLSTATE is set where the server said why.
	SQLSTATE string
	// Reason holds no text of the server's.
	Reason string
}

// Error is one line.
func (e *LostError) Error() string {
	if e.SQLSTATE != "" {
		return fmt.Sprintf("connection to Postgres lost at %s: %s (SQLSTATE %s)", e.Op, e.Reason, e.SQLSTATE)
	}
	return fmt.Sprintf("connection to Postgres lost at %s: %s", e.Op, e.Reason)
}

// Is makes errors.Is(err, ErrConnectionLost) true.
func (e *LostError) Is(target error) bool { return target == ErrConnectionLost }

// ServerError is what is kept of an ErrorResponse: nothing that could hold a value.
type ServerError struct {
	SQLSTATE string
	// Severity is the server's word for it, not translated.
	Severity string
	// Routine is the function of the server that raised it.
	Routine string
}

// Error names SQLSTATE and routine.
func (e *ServerError) Error() string {
	if e.Routine == "" {
		return "server error, SQLSTATE " + e.SQLSTATE
	}
	return fmt.Sprintf("server error, SQLSTATE %s in %s", e.SQLSTATE, e.Routine)
}
