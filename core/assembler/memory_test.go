package assembler

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// held is a cut that somebody still looks at: what it should say was noted when it was
// taken, in memory of its own.
type held struct {
	mark    Mark
	changes []core.Change
	want    []string
}

func (h held) check(t require.TestingT) {
	for i := range h.changes {
		require.Equal(t, h.want[i], describe(&h.changes[i]), "cut %d, change %d", h.mark, i)
	}
}

func describe(c *core.Change) string {
	s := fmt.Sprintf("%s %p %d", c.Op, c.Relation, c.OldKind)
	for _, image := range []core.Tuple{c.Old, c.New} {
		if !image.IsZero() {
			s += fmt.Sprintf(" [%x]", image.Packed())
		}
	}
	if c.Message != nil {
		s += fmt.Sprintf(" %x %x", c.Message.Prefix, c.Message.Content)
	}
	return s
}

// While many cuts overlap, each stays as it was until it is released, whatever was
// released before it and whatever is built behind it.
func TestCutsStayIntactUntilReleased(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := New(Options{Slab: rapid.SampledFrom([]int{64, 256, 4096}).Draw(t, "slab")})
		a.changes.least = rapid.IntRange(1, 64).Draw(t, "chunk")
		relation := table(tOID, core.IdentityFull, "id*", "a*")
		mustPush(t, a, relation)
		var queue []held
		var lsn core.LSN
		take := func(mark Mark, changes []core.Change) {
			h := held{mark: mark, changes: changes}
			for i := range changes {
				h.want = append(h.want, describe(&changes[i]))
			}
			queue = append(queue, h)
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			_, open := a.Open()
			switch action := rapid.IntRange(0, 9).Draw(t, "action"); {
			case !open:
				lsn += 100
				mustPush(t, a, begin(lsn))
			case action < 5:
				for range rapid.IntRange(1, 40).Draw(t, "rows") {
					mustPush(t, a, randomChange(t))
				}
			case action == 5:
				changes, _, mark := a.TakeChanges()
				take(mark, changes)
			default:
				mustPush(t, a, commit(lsn))
				tx, mark := a.Take()
				take(mark, tx.Changes)
			}
			if n := rapid.IntRange(-3, 3).Draw(t, "release"); n > 0 && len(queue) > 0 {
				n = min(n, len(queue))
				a.Release(queue[n-1].mark)
				a.Release(queue[0].mark) // late and repeated: no effect
				queue = queue[n:]
			}
			for _, h := range queue {
				h.check(t)
			}
		}
	})
}

func mustPush(t require.TestingT, a *Assembler, m pgoutput.Message) {
	_, err := a.Push(&m)
	require.NoError(t, err)
}

func randomChange(t *rapid.T) pgoutput.Message {
	value := func() pgoutput.Tuple {
		size := rapid.SampledFrom([]int{0, 1, 7, 20, 127, 128, 5000}).Draw(t, "size")
		text := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, size)
		raw := binary.BigEndian.AppendUint32([]byte{'n', 't'}, uint32(size))
		return pgoutput.Tuple{Columns: 2, Raw: append(raw, text...)}
	}
	m := pgoutput.Message{RelationOID: tOID}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		m.Kind, m.HasNew, m.New = pgoutput.KindInsert, true, value()
	case 1:
		m.Kind, m.HasNew, m.New, m.OldKind, m.Old = pgoutput.KindUpdate, true, value(), 'O', value()
		m.New.Raw[0], m.New.Unchanged = 'n', false
	case 2:
		m.Kind, m.OldKind, m.Old = pgoutput.KindDelete, 'O', value()
	default:
		return logical(true, 5, "prefix", string(value().Raw))
	}
	return m
}

// What is kept for later use is bounded, however much was in flight at once.
func TestFreeMemoryIsBounded(t *testing.T) {
	a := New(Options{})
	push(t, a, table(tOID, core.IdentityDefault, "id*"))
	row := insert(tOID, "1")
	row.New.Raw = append(binary.BigEndian.AppendUint32([]byte{'t'}, 1000), make([]byte, 1000)...)
	var last Mark
	for lsn := core.LSN(100); lsn < 100*31; lsn += 100 {
		push(t, a, begin(lsn))
		for range 2000 {
			push(t, a, row)
		}
		push(t, a, commit(lsn))
		_, last = a.Take()
	}
	require.Greater(t, len(a.rows.aside)*a.rows.size, 4*freeBytesMax)
	a.Release(last)
	require.Empty(t, a.rows.aside)
	require.Empty(t, a.changes.aside)
	require.LessOrEqual(t, len(a.rows.free)*a.rows.size, freeBytesMax)
	require.LessOrEqual(t, a.changes.freeSize, freeChangesMax)
	for _, free := range a.changes.free {
		for _, c := range free[:cap(free)] {
			require.Zero(t, c, "a free chunk keeps no row alive")
		}
	}
	require.Empty(t, a.rows.current)
	require.Empty(t, a.changes.current)
}

// A big value has memory of its own and leaves the slab to the small ones.
func TestBigValueHasMemoryOfItsOwn(t *testing.T) {
	a := New(Options{Slab: 1024})
	push(t, a, table(tOID, core.IdentityDefault, "id*"), begin(100), insert(tOID, "1"))
	used := len(a.rows.current)
	row := insert(tOID, "1")
	row.New.Raw = append(binary.BigEndian.AppendUint32([]byte{'t'}, 100_000), make([]byte, 100_000)...)
	push(t, a, row)
	require.Len(t, a.rows.current, used)
	require.Empty(t, a.rows.aside)
	push(t, a, insert(tOID, "2"), commit(100))
	tx, mark := a.Take()
	require.Greater(t, len(tx.Changes[1].New.Packed()), 100_000)
	a.Release(mark)
	require.Empty(t, a.rows.aside)
	require.LessOrEqual(t, cap(a.rows.current), 1024)
}

func TestReleaseOfAMarkThatIsNotThereYet(t *testing.T) {
	a := New(Options{Slab: 64})
	push(t, a, table(tOID, core.IdentityDefault, "id*"), begin(100), insert(tOID, "1"))
	for range 100 {
		push(t, a, insert(tOID, "2"))
		a.Release(1_000)
	}
	changes, _, _ := a.TakeChanges()
	require.Equal(t, "1", letters(changes[0].New))
	for _, c := range changes[1:] {
		require.Equal(t, "2", letters(c.New))
	}
}

// The bound that room is asked for holds for every length of value, so a slab never
// grows.
func TestPackedMax(t *testing.T) {
	a := New(Options{})
	for _, columns := range []int{0, 1, 127, 128, core.ColumnsMax} {
		for _, size := range []int{-1, 0, 127, 128, 1 << 14, 1 << 21} {
			if size > 128 && columns > 1 {
				continue
			}
			column := []byte{'n'}
			if size >= 0 {
				column = append(binary.BigEndian.AppendUint32([]byte{'t'}, uint32(size)), make([]byte, size)...)
			}
			raw := bytes.Repeat(column, columns)
			packed := a.pack(pgoutput.Tuple{Columns: columns, Raw: raw}).Packed()
			require.LessOrEqual(t, len(packed), packedMax(columns, len(raw)), "%d columns of %d bytes", columns, size)
		}
	}
	require.LessOrEqual(t, cap(a.rows.current), a.rows.size)
}
