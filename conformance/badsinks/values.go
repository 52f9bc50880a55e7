package badsinks

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// stored is a text as the store keeps it: exactly, but for the defects.
func (s *Sink) stored(c *sinkv1.Column, text []byte) (value, bool) {
	if s.is(LeaksValues) {
		s.memory["text"] = string(text)
	}
	v := value{text: text}
	switch s.defect {
	case FloatNumeric, DeclinesAndRounds:
		if c.GetTypeName() == "numeric" {
			v.text = asFloat(text, 64)
		}
	case FloatIntegers:
		if c.GetTypeName() == "int8" {
			v.text = asFloat(text, 64)
		}
	case ShortFloats:
		if c.GetTypeName() == "float8" {
			v.text = asFloat(text, 32)
		}
	case ReplacesInvalid:
		if c.GetTypeName() == "text" && !utf8.Valid(text) {
			v.text = []byte(strings.ToValidUTF8(string(text), "\ufffd"))
		}
	case TrimsText:
		if c.GetTypeName() == "text" {
			v.text = bytes.TrimSuffix(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte{0x20})
		}
	case DecodesBytea:
		if c.GetTypeName() == "bytea" && len(text) == 2 {
			v = value{null: true}
		}
	case CutsMicroseconds:
		if c.GetTypeName() == "timestamp" {
			v.text = cutFraction(text)
		}
	case SortsJSON:
		if c.GetTypeName() == "json" {
			v.text = bytes.ReplaceAll(text, []byte{0x20}, nil)
		}
	case SentinelIsNull:
		if string(text) == "__debezium_unavailable_value" {
			v = value{null: true}
		}
	case EmptyIsNull:
		if c.GetTypeName() == "text" && len(text) == 0 {
			v = value{null: true}
		}
	}
	return v, true
}

// asFloat is what a number becomes in a float and back.
func asFloat(text []byte, bits int) []byte {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return text
	}
	return strconv.AppendFloat(nil, f, 'g', -1, bits)
}

func cutFraction(text []byte) []byte {
	at, err := time.Parse("2006-01-02 15:04:05.999999", string(text))
	if err != nil {
		return text
	}
	return []byte(at.Truncate(time.Millisecond).Format("2006-01-02 15:04:05.999"))
}
