package cases_test

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// commit stands behind the changes of each transaction in what a road shows.
const commit = "commit"

// shown is what the sink was given, a line a change, without the scene's own marks.
//
//	insert t new{id=<1> v=null}
//	update t key{id=<1> v=absent} new{id=<2> v=unchanged}
//	delete t full{id=<2> v=<x>}
//	truncate t, other/t restart cascade
func (r *road) shown() []string {
	var lines []string
	for _, tx := range r.transactions() {
		for i := range tx.Changes {
			lines = append(lines, show(&tx.Changes[i]))
		}
		lines = append(lines, commit)
	}
	return lines
}

// transactions are those that are not the scene's marks.
func (r *road) transactions() []core.Transaction {
	var list []core.Transaction
	for _, tx := range r.sink.Transactions() {
		if _, mark := markOf(&tx.Transaction); !mark {
			list = append(list, tx.Transaction)
		}
	}
	return list
}

func show(c *core.Change) string {
	var b strings.Builder
	b.WriteString(c.Op.String())
	switch c.Op {
	case core.OpTruncate:
		for i, r := range c.Truncate.Relations {
			b.WriteString(map[bool]string{true: " ", false: ", "}[i == 0] + nameOf(r))
		}
		if c.Truncate.RestartIdentity {
			b.WriteString(" restart")
		}
		if c.Truncate.Cascade {
			b.WriteString(" cascade")
		}
		return b.String()
	case core.OpMessage:
		fmt.Fprintf(&b, " %s=<%s>", c.Message.Prefix, c.Message.Content)
		return b.String()
	}
	b.WriteString(" " + nameOf(c.Relation))
	if c.OldKind != core.OldNone {
		b.WriteString(map[core.OldKind]string{core.OldKey: " key", core.OldFull: " full"}[c.OldKind])
		image(&b, c.Relation, c.Old)
	}
	if !c.New.IsZero() {
		b.WriteString(" new")
		image(&b, c.Relation, c.New)
	}
	return b.String()
}

func nameOf(r *core.Relation) string {
	if r.Schema == "public" {
		return r.Name
	}
	return r.Schema + "/" + r.Name
}

// longest is what a line shows of a value; behind it stands the whole length.
const longest = 200

func image(b *strings.Builder, r *core.Relation, t core.Tuple) {
	for i, v := range t.Values() {
		b.WriteString(map[bool]string{true: "{", false: " "}[i == 0] + r.Columns[i].Name + "=")
		switch v.Kind {
		case core.ValueText:
			if text := string(v.Text); len(text) > longest {
				fmt.Fprintf(b, "<%s.. %d>", text[:8], len(text))
			} else {
				fmt.Fprintf(b, "<%s>", text)
			}
		case core.ValueNull:
			b.WriteString("null")
		case core.ValueUnchanged:
			b.WriteString("unchanged")
		case core.ValueAbsent:
			b.WriteString("absent")
		default:
			fmt.Fprintf(b, "kind %q", byte(v.Kind))
		}
	}
	b.WriteString("}")
}

// text is the whole value of a column in the new row of a change that a transaction has,
// both counted from 0.
func (r *road) text(transaction, change int, column string) string {
	r.Helper()
	c := r.transactions()[transaction].Changes[change]
	for i := range c.Relation.Columns {
		if c.Relation.Columns[i].Name == column {
			v := c.New.Value(i)
			require.Equal(r, core.ValueText, v.Kind)
			return string(v.Text)
		}
	}
	require.FailNow(r, "no column "+column)
	return ""
}

// relation is the relation of a change that a transaction has.
func (r *road) relation(transaction, change int) *core.Relation {
	return r.transactions()[transaction].Changes[change].Relation
}
