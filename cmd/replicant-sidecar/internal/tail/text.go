package tail

import (
	"bufio"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Text prints for people. Values are Go strings in double quotes: what is not printable,
// or not UTF-8, is escaped, so that no value can steer the terminal.
type Text struct{}

// Begin implements Printer.
func (Text) Begin(w *bufio.Writer, t *core.Transaction) error {
	fmt.Fprintf(w, "BEGIN %d  %s", t.XID, t.CommitTime.UTC().Format(time.RFC3339Nano))
	if t.Origin != "" {
		fmt.Fprintf(w, "  origin %s", strconv.Quote(t.Origin))
	}
	return w.WriteByte('\n')
}

// Change implements Printer.
func (Text) Change(w *bufio.Writer, _ int, c *core.Change) error {
	switch {
	case c.Truncate != nil:
		textTruncate(w, c.Truncate)
	case c.Message != nil:
		fmt.Fprintf(w, "  MESSAGE %s %s", strconv.Quote(string(c.Message.Prefix)), strconv.Quote(string(c.Message.Content)))
	default:
		fmt.Fprintf(w, "  %-6s %s", strings.ToUpper(c.Op.String()), table(c.Relation))
		if !c.Old.IsZero() {
			label := " where"
			if c.OldKind == core.OldFull {
				label = " old"
			}
			textRow(w, label, c.Relation, c.Old)
		}
		if !c.New.IsZero() {
			textRow(w, map[bool]string{true: " new", false: ""}[!c.Old.IsZero()], c.Relation, c.New)
		}
	}
	return w.WriteByte('\n')
}

func textTruncate(w *bufio.Writer, t *core.Truncate) {
	names := make([]string, len(t.Relations))
	for i, r := range t.Relations {
		names[i] = table(r)
	}
	_, _ = w.WriteString("  TRUNCATE " + strings.Join(names, ", "))
	if t.RestartIdentity {
		_, _ = w.WriteString(" RESTART IDENTITY")
	}
	if t.Cascade {
		_, _ = w.WriteString(" CASCADE")
	}
}

func textRow(w *bufio.Writer, label string, r *core.Relation, row core.Tuple) {
	_, _ = w.WriteString(label)
	for i, v := range row.Values() {
		if v.Kind == core.ValueAbsent {
			continue
		}
		_, _ = w.WriteString(" " + name(r.Columns[i].Name) + "=")
		switch v.Kind {
		case core.ValueText:
			_, _ = w.WriteString(strconv.Quote(string(v.Text)))
		case core.ValueUnchanged:
			_, _ = w.WriteString("(unchanged)")
		default:
			_, _ = w.WriteString("null")
		}
	}
}

// End implements Printer.
func (Text) End(w *bufio.Writer, t *core.Transaction, changes int) error {
	_, err := fmt.Fprintf(w, "COMMIT %d  commit %s  end %s  changes %d\n", t.XID, t.CommitLSN, t.EndLSN, changes)
	return err
}

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// name quotes what is not a plain identifier.
func name(n string) string {
	if plainName.MatchString(n) {
		return n
	}
	return strconv.Quote(n)
}

func table(r *core.Relation) string { return name(r.Schema) + "." + name(r.Name) }
