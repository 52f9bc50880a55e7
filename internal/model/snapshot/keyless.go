package snapshot

import "fmt"

// A table without a key: one snapshot, and the table is attached to the stream when its
// copy is complete. Rows are all alike, so that a table is a number.

const (
	keylessInsert = iota + 1
	keylessDelete
	keylessTruncate
)

type keyless struct {
	Log                        [logMax]int8
	Length                     int8
	Visible                    uint8
	Start, Received, Durable   int8
	Phase, Opened, Half, Clear int8
	Snapshot                   uint8
	Attached                   int8
	TokenSnapshot              uint8 // durable, with the attach
	Sink                       int8
	Crashes                    int8
}

// Changes of the keyless model, all of them mistakes.
const (
	insideApplied Change = 1 << iota
	snapshotForgotten
	laterNotHeld
	notCleared
	visibilityNotChecked
	writersNotAwaited
)

type keylessSteps struct {
	changes Change
	out     *[]keyless
	texts   *[]string
}

func (s *keyless) source(visible uint8) int8 {
	rows := int8(2)
	for i := range s.Length {
		if has(visible, i) {
			rows = keylessChange(rows, s.Log[i])
		}
	}
	return rows
}

func keylessChange(rows, op int8) int8 {
	switch {
	case op == keylessInsert:
		return rows + 1
	case op == keylessDelete && rows > 0:
		return rows - 1
	case op == keylessTruncate:
		return 0
	}
	return rows
}

func (n *keylessSteps) emit(s keyless, what string, i int8) {
	*n.out = append(*n.out, s)
	if n.texts != nil {
		*n.texts = append(*n.texts, fmt.Sprint(what, " ", i))
	}
}

func (n *keylessSteps) expand(s *keyless) {
	n.sourceSteps(s)
	if s.Received < s.Length {
		after := *s
		after.Received++
		n.emit(after, "receive", after.Received)
	}
	n.deliver(s)
	if s.Attached == 0 {
		n.copySteps(s)
	}
	if s.Crashes > 0 {
		after := *s
		after.Crashes--
		after.Start, after.Received = s.Durable, s.Durable
		after.Phase, after.Opened, after.Half, after.Snapshot = 0, 0, 0, 0
		n.emit(after, "crash", 0)
	}
}

func (n *keylessSteps) sourceSteps(s *keyless) {
	for op := int8(keylessInsert); op <= keylessTruncate && s.Length < logMax; op++ {
		if op == keylessDelete && s.source(s.Visible) == 0 || op == keylessTruncate && (s.Visible != below(s.Length) || s.Phase == 2) {
			continue // TRUNCATE waits for writers and for the lock of the copy
		}
		after := *s
		after.Log[after.Length] = op
		if op == keylessTruncate {
			after.Visible |= bit(after.Length)
		}
		after.Length++
		n.emit(after, "commit of kind", op)
	}
	for i := range s.Length {
		if !has(s.Visible, i) {
			after := *s
			after.Visible |= bit(i)
			n.emit(after, "visible", i+1)
		}
	}
}

// deliver hands on the next transaction, with the table's part, without it, or not yet.
func (n *keylessSteps) deliver(s *keyless) {
	if s.Durable >= s.Received {
		return
	}
	i := s.Durable
	after := *s
	after.Durable++
	with := after
	with.Sink = keylessChange(with.Sink, s.Log[i])
	switch {
	case s.Attached == 1 && (!has(s.TokenSnapshot, i) || n.changes&insideApplied != 0):
		n.emit(with, "deliver", with.Durable)
	case s.Attached == 1, s.Phase == 0, i < s.Opened, s.Phase == 2 && has(s.Snapshot, i):
		n.emit(after, "deliver without the table's part", after.Durable)
	case n.changes&laterNotHeld != 0:
		n.emit(with, "deliver", with.Durable)
	}
}

func (n *keylessSteps) copySteps(s *keyless) {
	after := *s
	switch s.Phase {
	case 0:
		if s.Visible&below(s.Start) == below(s.Start) || n.changes&writersNotAwaited != 0 {
			after.Phase, after.Opened = 1, s.Received
			n.emit(after, "window opens", 0)
		}
	case 1:
		need := below(s.Opened) &^ below(s.Start)
		if need&^s.Visible == 0 || n.changes&visibilityNotChecked != 0 {
			after.Phase, after.Snapshot = 2, s.Visible
			n.emit(after, "snapshot", 0)
		}
	case 2:
		rows := s.source(s.Snapshot)
		if s.Half == 0 {
			if n.changes&notCleared == 0 {
				after.Sink = 0
			}
			after.Sink += rows / 2
			after.Half = 1
			n.emit(after, "first half, table cleared", 0)
			return
		}
		after.Sink += rows - rows/2
		after.Attached, after.TokenSnapshot = 1, s.Snapshot
		if n.changes&snapshotForgotten != 0 {
			after.TokenSnapshot = 0
		}
		after.Phase, after.Opened, after.Half, after.Snapshot = 0, 0, 0, 0
		n.emit(after, "second half, attached", 0)
	}
}

func (s *keyless) rest() bool {
	return s.Attached == 1 && s.Durable == s.Length && s.Visible == below(s.Length)
}

// ExploreKeyless visits every state of a copy of a table without a key, with two crashes.
func ExploreKeyless(changes Change, options Options) (Result, error) {
	return explore(space[keyless]{
		start: keyless{Crashes: 2},
		next: func(s *keyless, out *[]keyless, texts *[]string) {
			(&keylessSteps{changes, out, texts}).expand(s)
		},
		judge: func(s *keyless) string {
			if s.rest() && s.Sink != s.source(0xff) {
				return wrongRest
			}
			return ""
		},
		rest: (*keyless).rest,
	}, options)
}
