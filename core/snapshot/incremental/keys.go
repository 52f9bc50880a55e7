package incremental

import (
	"encoding/binary"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// keyBytes is the identity of a row in memory: each value with its length before it. Two
// keys that the source takes for equal and prints differently are different here, as they
// are on the stream.
type keyBytes string

func (k Key) bytes() keyBytes {
	var b []byte
	for _, v := range k {
		b = binary.AppendUvarint(b, uint64(len(v)))
		b = append(b, v...)
	}
	return keyBytes(b)
}

// keyOf takes the key out of a row image; ok is false where a part of it is not text.
func keyOf(t core.Tuple, columns []int) (Key, bool) {
	if t.IsZero() {
		return nil, false
	}
	key := make(Key, len(columns))
	found := 0
	for i, v := range t.Values() {
		for at, column := range columns {
			if column == i {
				if v.Kind != core.ValueText {
					return nil, false
				}
				key[at] = string(v.Text)
				found++
			}
		}
	}
	return key, found == len(columns)
}

// merged is image with each column that it does not carry taken from row.
func merged(image, row core.Tuple) core.Tuple {
	values := make([]core.Value, 0, row.Len())
	for _, v := range row.Values() {
		values = append(values, v)
	}
	for i, v := range image.Values() {
		if v.Kind != core.ValueUnchanged {
			values[i] = v
		}
	}
	return core.PackTuple(values...)
}
