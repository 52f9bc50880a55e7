package pgembed

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"
)

// storedXZ wraps plain bytes as a .xz file without compressing them: packing a
// whole installation for a test must not take longer than the test.
func storedXZ(plain []byte) []byte {
	flags := []byte{0, 1} // the check is CRC32
	var out bytes.Buffer
	out.WriteString("\xfd7zXZ\x00")
	out.Write(summed(flags))
	start := out.Len()
	out.Write(summed([]byte{2, 0, 0x21, 1, 10, 0, 0, 0})) // one filter: LZMA2, 128 KiB
	control := byte(1)                                    // uncompressed, first of all
	for rest := plain; len(rest) > 0; control = 2 {
		n := min(len(rest), 1<<16)
		out.WriteByte(control)
		out.Write(binary.BigEndian.AppendUint16(nil, uint16(n-1)))
		out.Write(rest[:n])
		rest = rest[n:]
	}
	out.WriteByte(0)
	unpadded := out.Len() - start + crc32.Size
	out.Write(make([]byte, -(out.Len()-start)&3))
	out.Write(binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(plain)))

	index := []byte{0, 1}
	index = binary.AppendUvarint(index, uint64(unpadded))
	index = binary.AppendUvarint(index, uint64(len(plain)))
	index = append(index, make([]byte, -len(index)&3)...)
	index = summed(index)
	out.Write(index)
	back := append(binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4-1)), flags...)
	out.Write(binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(back)))
	out.Write(back)
	out.WriteString("YZ")
	return out.Bytes()
}

// summed appends the checksum of b.
func summed(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(bytes.Clone(b), crc32.ChecksumIEEE(b))
}

func TestStoredXZ(t *testing.T) {
	for _, n := range []int{0, 1, 65536, 65537, 300000} {
		plain := bytes.Repeat([]byte("abcdefg"), n/7+1)[:n]
		r, err := xz.NewReader(bytes.NewReader(storedXZ(plain)))
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.True(t, bytes.Equal(plain, got), n)
	}
}
