package assembler

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/stretchr/testify/require"
)

// shopStream is one transaction of rows like those of an order table: seven columns,
// about a hundred bytes of values. Every fourth row is an update, every eighth a delete.
func shopStream(rows int, at uint64) [][]byte {
	const oid = 16400
	be := binary.BigEndian
	names := []string{"id", "customer", "status", "amount", "placed_at", "note", "flags"}
	relation := []byte{'R'}
	relation = be.AppendUint32(relation, oid)
	relation = append(relation, "public\x00orders\x00d\x00\x07"...)
	for i, n := range names {
		flag := byte(0)
		if i == 0 {
			flag = 1
		}
		relation = append(relation, flag)
		relation = append(relation, n+"\x00"...)
		relation = be.AppendUint32(relation, 25)
		relation = be.AppendUint32(relation, 0xffffffff)
	}
	begin := be.AppendUint32(be.AppendUint64(be.AppendUint64([]byte{'B'}, at), 7e14), 4711)
	frames := [][]byte{begin, relation}
	for i := range rows {
		values := []string{
			fmt.Sprint(1_000_000 + i), fmt.Sprint(i * 7919 % 50_000), "shipped", fmt.Sprintf("%d.%02d", i%5000, i%100),
			"2024-05-17 12:34:56.789012+00", "left at the door, back yard", "",
		}
		kind, key := byte('I'), []string{values[0]}
		switch {
		case i%8 == 7:
			kind = 'D'
		case i%4 == 3:
			kind = 'U'
		}
		f := be.AppendUint32([]byte{kind}, oid)
		if kind == 'D' {
			f = appendTuple(append(f, 'K'), key, 7)
		} else {
			f = appendTuple(append(f, 'N'), values, 7)
		}
		frames = append(frames, f)
	}
	commit := be.AppendUint64(be.AppendUint64(be.AppendUint64([]byte{'C', 0}, at), at+40), 7e14)
	return append(frames, commit)
}

// appendTuple writes values as text, and NULL for empty ones and the rest.
func appendTuple(f []byte, values []string, columns int) []byte {
	f = binary.BigEndian.AppendUint16(f, uint16(columns))
	for i := range columns {
		if i >= len(values) || values[i] == "" {
			f = append(f, 'n')
			continue
		}
		f = append(f, 't')
		f = binary.BigEndian.AppendUint32(f, uint32(len(values[i])))
		f = append(f, values[i]...)
	}
	return f
}

// run replays a transaction at the next LSN and gives its memory back.
func run(tb testing.TB, d *pgoutput.Decoder, a *Assembler, m *pgoutput.Message, frames [][]byte, lsn uint64) {
	begin, commit := frames[0], frames[len(frames)-1]
	binary.BigEndian.PutUint64(begin[1:], lsn)
	binary.BigEndian.PutUint64(commit[2:], lsn)
	binary.BigEndian.PutUint64(commit[10:], lsn+40)
	for _, f := range frames {
		if err := d.Decode(f, m); err != nil {
			tb.Fatal(err)
		}
		step, err := a.Push(m)
		if err != nil {
			tb.Fatal(err)
		}
		if step == StepCommit {
			_, mark := a.Take()
			a.Release(mark)
		}
	}
}

func BenchmarkDecodeAndAssemble(b *testing.B) {
	const rows = 100
	frames := shopStream(rows, 1000)
	d, a := pgoutput.NewDecoder(pgoutput.Options{}), New(Options{})
	var m pgoutput.Message
	run(b, d, a, &m, frames, 1000)
	frames = append(frames[:1:1], frames[2:]...) // the relation comes once
	b.ReportAllocs()
	b.ResetTimer()
	lsn := uint64(2000)
	for n := 0; n < b.N; n += rows {
		run(b, d, a, &m, frames, lsn)
		lsn += 100
	}
}

// BenchmarkStreamed is the same rows in blocks of a transaction in progress: decoded, held,
// and replayed at its commit.
func BenchmarkStreamed(b *testing.B) {
	const rows = 1000
	be := binary.BigEndian
	plain := shopStream(rows, 1000)
	start, stop := []byte("S\x00\x00\x12\x67\x01"), []byte("E")
	frames := [][]byte{start}
	for _, f := range plain[1 : len(plain)-1] {
		frames = append(frames, append(append([]byte{f[0]}, "\x00\x00\x12\x67"...), f[1:]...))
	}
	commit := append([]byte("c\x00\x00\x12\x67"), plain[len(plain)-1][1:]...)
	frames = append(frames, stop, commit)
	d, a := pgoutput.NewDecoder(pgoutput.Options{Streaming: true}), New(Options{})
	var m pgoutput.Message
	b.ReportAllocs()
	lsn := uint64(2000)
	for n := 0; n < b.N; n += rows {
		be.PutUint64(commit[6:], lsn)
		be.PutUint64(commit[14:], lsn+40)
		lsn += 100
		for _, f := range frames {
			if err := d.Decode(f, &m); err != nil {
				b.Fatal(err)
			}
			_, err := a.Push(&m)
			for err == nil && a.Replaying() {
				var step Step
				if step, err = a.Replay(); step == StepCommit {
					_, mark := a.Take()
					a.Release(mark)
				}
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	frames := shopStream(100, 1000)[2:102]
	d := pgoutput.NewDecoder(pgoutput.Options{})
	var m pgoutput.Message
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if err := d.Decode(frames[n%len(frames)], &m); err != nil {
			b.Fatal(err)
		}
	}
}

// A guard, not a wish: rows in steady state cost no allocation, in small transactions
// and in such as need many slabs and bigger chunks.
func TestRowsAllocateNothing(t *testing.T) {
	for _, rows := range []int{1, 100, 20_000} {
		frames := shopStream(rows, 1000)
		d, a := pgoutput.NewDecoder(pgoutput.Options{}), New(Options{})
		var m pgoutput.Message
		run(t, d, a, &m, frames, 1000)
		frames = append(frames[:1:1], frames[2:]...)
		lsn := uint64(2000)
		next := func() { run(t, d, a, &m, frames, lsn); lsn += 100 }
		next()
		next()
		require.Zero(t, testing.AllocsPerRun(20, next), "%d rows", rows)
	}
}
