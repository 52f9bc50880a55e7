package incremental

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

const (
	tokenMagic   = "replicant-progress"
	tokenVersion = 2
	tokenSum     = 16 // bytes of a SHA-256 over all that is before it
)

// Encode is the token: versioned, every field with its length, and a checksum at the end.
// It holds values of keys.
func (s *State) Encode() []byte {
	w := writer{b: make([]byte, 0, 256+128*len(s.Tables))}
	w.b = append(w.b, tokenMagic...)
	w.number(tokenVersion)
	w.b = append(w.b, s.RunID[:]...)
	w.number(s.Generation)
	w.number(uint64(s.Kind))
	w.text(s.Source.SystemIdentifier)
	w.number(uint64(s.Source.Timeline))
	w.text(s.Source.Database)
	w.text(s.Source.Slot)
	w.number(uint64(s.Floor))
	w.flags(s.Listed, s.Paused, s.Complete, s.Forgot)
	w.number(uint64(len(s.Tables)))
	for i := range s.Tables {
		w.table(&s.Tables[i])
	}
	sum := sha256.Sum256(w.b)
	return append(w.b, sum[:tokenSum]...)
}

// Decode reads a token. What is not exactly as Encode writes it is refused: a token that
// may be wrong never means that the run starts over. The error is a *core.Halt.
func Decode(token []byte) (*State, error) {
	body := len(token) - tokenSum
	if body < len(tokenMagic) || !bytes.HasPrefix(token, []byte(tokenMagic)) || len(token) > core.ProgressTokenMax {
		return nil, unreadable("it is not a token of this program")
	}
	if sum := sha256.Sum256(token[:body]); !bytes.Equal(sum[:tokenSum], token[body:]) {
		return nil, unreadable("its checksum is wrong")
	}
	r := reader{b: token[len(tokenMagic):body]}
	if version := r.number(); version != tokenVersion {
		return nil, unreadable("its version is %d, this program knows %d", version, tokenVersion)
	}
	s := &State{}
	copy(s.RunID[:], r.bytes(len(s.RunID)))
	s.Generation = r.number()
	s.Kind = Kind(r.upTo(uint64(kindEnd) - 1))
	s.Source.SystemIdentifier = r.text()
	s.Source.Timeline = uint32(r.upTo(1<<32 - 1))
	s.Source.Database = r.text()
	s.Source.Slot = r.text()
	s.Floor = core.LSN(r.number())
	r.flags(&s.Listed, &s.Paused, &s.Complete, &s.Forgot)
	for n := r.count(); n > 0 && !r.bad; n-- {
		s.Tables = append(s.Tables, r.table())
	}
	bare := s.Complete && !s.Listed && !s.Paused && len(s.Tables) == 0
	if r.bad || len(r.b) != 0 || s.Kind == 0 || s.Generation == 0 || s.BeforeStream() && !bare {
		return nil, unreadable("its content is broken")
	}
	return s, nil
}

func unreadable(format string, args ...any) error {
	return core.NewHalt(core.HaltProgressInvalid, "snapshot", "the progress token cannot be read: "+format, args...)
}

type writer struct{ b []byte }

func (w *writer) number(n uint64) { w.b = binary.AppendUvarint(w.b, n) }

func (w *writer) text(s string) {
	w.number(uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) flags(all ...bool) {
	var n uint64
	for i, set := range all {
		if set {
			n |= 1 << i
		}
	}
	w.number(n)
}

// key tells no bound from a bound without columns, which there is not.
func (w *writer) key(k Key) {
	w.number(uint64(len(k)))
	for _, v := range k {
		w.text(v)
	}
}

func (w *writer) table(t *Table) {
	w.number(uint64(t.OID))
	w.text(t.Schema)
	w.text(t.Name)
	w.number(uint64(t.Identity))
	w.number(uint64(len(t.Key)))
	for i, name := range t.Key {
		w.text(name)
		w.number(uint64(t.KeyTypes[i]))
		if i < len(t.KeyCollations) {
			w.text(t.KeyCollations[i])
		} else {
			w.text("")
		}
	}
	w.number(uint64(t.Status))
	w.flags(t.Replace, t.Sweep, t.Suspect)
	w.flags(t.Filtered, t.Alone)
	w.number(t.Shown.Min)
	w.number(t.Shown.Max)
	w.number(uint64(len(t.Shown.Running)))
	for _, xid := range t.Shown.Running {
		w.number(xid)
	}
	w.number(uint64(t.High))
	w.number(t.Rows)
	w.number(uint64(len(t.Ranges)))
	for _, r := range t.Ranges {
		w.key(r.Lo)
		w.key(r.Hi)
	}
	w.number(uint64(len(t.Repair)))
	for _, k := range t.Repair {
		w.key(k)
	}
}

// reader never reads past its end: bad says that it would have had to.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) upTo(most uint64) uint64 {
	n := r.number()
	if n > most {
		r.bad = true
		return 0
	}
	return n
}

// count is a number of things that take a byte each at least.
func (r *reader) count() int { return int(r.upTo(uint64(len(r.b)))) }

func (r *reader) bytes(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) text() string { return string(r.bytes(r.count())) }

func (r *reader) flags(all ...*bool) {
	n := r.upTo(1<<len(all) - 1)
	for i, set := range all {
		*set = n&(1<<i) != 0
	}
}

func (r *reader) key(width int) Key {
	n := r.count()
	if n != 0 && n != width {
		r.bad = true
	}
	var k Key
	for ; n > 0 && !r.bad; n-- {
		k = append(k, r.text())
	}
	return k
}

func (r *reader) table() (t Table) {
	t.OID = uint32(r.upTo(1<<32 - 1))
	t.Schema, t.Name = r.text(), r.text()
	t.Identity = core.ReplicaIdentity(r.upTo(255))
	for n := r.count(); n > 0 && !r.bad; n-- {
		t.Key = append(t.Key, r.text())
		t.KeyTypes = append(t.KeyTypes, uint32(r.upTo(1<<32-1)))
		t.KeyCollations = append(t.KeyCollations, r.text())
	}
	t.Status = Status(r.upTo(uint64(statusEnd) - 1))
	r.flags(&t.Replace, &t.Sweep, &t.Suspect)
	r.flags(&t.Filtered, &t.Alone)
	t.Shown.Min, t.Shown.Max = r.number(), r.number()
	for n := r.count(); n > 0 && !r.bad; n-- {
		t.Shown.Running = append(t.Shown.Running, r.number())
	}
	t.High = core.LSN(r.number())
	t.Rows = r.number()
	for n := r.count(); n > 0 && !r.bad; n-- {
		t.Ranges = append(t.Ranges, Range{Lo: r.key(len(t.Key)), Hi: r.key(len(t.Key))})
	}
	for n := r.count(); n > 0 && !r.bad; n-- {
		k := r.key(len(t.Key))
		r.bad = r.bad || k == nil
		t.Repair = append(t.Repair, k)
	}
	r.bad = r.bad || t.Status == 0
	return t
}
