package tail

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// JSON prints one line a transaction:
//
//	{"xid":745,"commit_lsn":"27438024","commit_lsn_text":"0/1A2AB88","commit_time":"...",
//	 "changes":[{"op":"update","schema":"public","table":"orders",
//	   "old_kind":"key","old":{"id":"1"},"new":{"id":"2","note":null,"doc":{"unchanged":true}}}],
//	 "end_lsn":"27438072","end_lsn_text":"0/1A2ABB8","change_count":1}
//
// Positions are decimal in a string: they do not fit a JavaScript number. A value is
// Postgres' text as a string, null for NULL, {"unchanged":true} for a stored value that
// was not sent, and {"base64":"..."} for text that is not UTF-8. A column that an image
// does not have is left out.
type JSON struct{}

// Begin implements Printer.
func (JSON) Begin(w *bufio.Writer, t *core.Transaction) error {
	fmt.Fprintf(w, `{"xid":%d,`, t.XID)
	position(w, "commit_lsn", t.CommitLSN)
	fmt.Fprintf(w, `,"commit_time":"%s"`, t.CommitTime.UTC().Format(time.RFC3339Nano))
	if t.Origin != "" {
		_, _ = w.WriteString(`,"origin":`)
		value(w, []byte(t.Origin))
	}
	_, err := w.WriteString(`,"changes":[`)
	return err
}

func position(w *bufio.Writer, key string, p core.LSN) {
	fmt.Fprintf(w, `"%s":"%d","%s_text":"%s"`, key, uint64(p), key, p)
}

// Change implements Printer.
func (JSON) Change(w *bufio.Writer, index int, c *core.Change) error {
	if index > 0 {
		_ = w.WriteByte(',')
	}
	fmt.Fprintf(w, `{"op":"%s"`, c.Op)
	switch {
	case c.Truncate != nil:
		_, _ = w.WriteString(`,"tables":[`)
		for i, r := range c.Truncate.Relations {
			if i > 0 {
				_ = w.WriteByte(',')
			}
			fmt.Fprintf(w, `{"schema":%s,"table":%s}`, key(r.Schema), key(r.Name))
		}
		fmt.Fprintf(w, `],"cascade":%t,"restart_identity":%t`, c.Truncate.Cascade, c.Truncate.RestartIdentity)
	case c.Message != nil:
		_, _ = w.WriteString(`,"prefix":`)
		value(w, c.Message.Prefix)
		_, _ = w.WriteString(`,"content":`)
		value(w, c.Message.Content)
	default:
		fmt.Fprintf(w, `,"schema":%s,"table":%s`, key(c.Relation.Schema), key(c.Relation.Name))
		if !c.Old.IsZero() {
			fmt.Fprintf(w, `,"old_kind":"%s","old":`, map[bool]string{true: "full", false: "key"}[c.OldKind == core.OldFull])
			row(w, c.Relation, c.Old)
		}
		if !c.New.IsZero() {
			_, _ = w.WriteString(`,"new":`)
			row(w, c.Relation, c.New)
		}
	}
	return w.WriteByte('}')
}

func row(w *bufio.Writer, r *core.Relation, t core.Tuple) {
	separator := byte('{')
	for i, v := range t.Values() {
		if v.Kind == core.ValueAbsent {
			continue
		}
		_ = w.WriteByte(separator)
		separator = ','
		_, _ = w.WriteString(key(r.Columns[i].Name) + ":")
		switch v.Kind {
		case core.ValueText:
			value(w, v.Text)
		case core.ValueUnchanged:
			_, _ = w.WriteString(`{"unchanged":true}`)
		default:
			_, _ = w.WriteString("null")
		}
	}
	if separator == '{' {
		_ = w.WriteByte('{')
	}
	_ = w.WriteByte('}')
}

// value is a string, or an object where the bytes are no UTF-8.
func value(w *bufio.Writer, text []byte) {
	if !utf8.Valid(text) {
		fmt.Fprintf(w, `{"base64":"%s"}`, base64.StdEncoding.EncodeToString(text))
		return
	}
	_, _ = w.Write(quoted(string(text)))
}

// key is a name as a JSON string. Bytes that are no UTF-8 are escaped as Go escapes them.
func key(name string) string {
	if !utf8.ValidString(name) {
		name = strconv.Quote(name)
		name = name[1 : len(name)-1]
	}
	return string(quoted(name))
}

func quoted(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// End implements Printer.
func (JSON) End(w *bufio.Writer, t *core.Transaction, changes int) error {
	_, _ = w.WriteString("],")
	position(w, "end_lsn", t.EndLSN)
	_, err := fmt.Fprintf(w, `,"change_count":%d}`+"\n", changes)
	return err
}
