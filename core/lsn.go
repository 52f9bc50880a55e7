package core

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// LSN is a byte position in the write-ahead log of one Postgres timeline.
//
// Everything this project stores, compares or confirms under the name "position"
// is an end LSN: all that ends at or before it is done. The zero value means
// "never" and is not a valid position.
// Source: https://www.postgresql.org/docs/current/datatype-pg-lsn.html
type LSN uint64

// String prints the LSN the way Postgres does, two hexadecimal halves: "16/B374D848".
func (l LSN) String() string {
	return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l))
}

// MarshalText makes JSON and logs show the LSN in Postgres' own notation.
func (l LSN) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// ErrBadLSN is the reason of every failed ParseLSN; the text that was parsed is not in it.
var ErrBadLSN = errors.New("not an LSN of the form X/X with two hexadecimal halves of at most 32 bits")

// ParseLSN reads Postgres' text form of an LSN, "X/X". Signs, spaces and prefixes are errors.
func ParseLSN(s string) (LSN, error) {
	high, low, found := strings.Cut(s, "/")
	if !found || !isHexHalf(high) || !isHexHalf(low) {
		return 0, ErrBadLSN
	}
	h, errHigh := strconv.ParseUint(high, 16, 32)
	l, errLow := strconv.ParseUint(low, 16, 32)
	if errHigh != nil || errLow != nil {
		return 0, ErrBadLSN
	}
	return LSN(h)<<32 | LSN(l), nil
}

// isHexHalf refuses what strconv would let pass: signs and underscores.
func isHexHalf(s string) bool {
	if len(s) == 0 || len(s) > 8 {
		return false
	}
	for _, c := range []byte(s) {
		digit := c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
		if !digit {
			return false
		}
	}
	return true
}
