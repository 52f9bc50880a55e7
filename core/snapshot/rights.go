package snapshot

import (
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// missing is the statements that give the role what it lacks to read the columns: a right on
// the schema, on the whole table where it has none on any column, or on the columns that it
// lacks.
func (f *facts) missing(streamed []attribute) (grants []string) {
	role := QuoteIdentifier(f.role)
	if !f.schemaUsable {
		grants = append(grants, "GRANT USAGE ON SCHEMA "+QuoteIdentifier(f.schema)+" TO "+role)
	}
	var lacking []string
	for _, a := range streamed {
		if !a.readable {
			lacking = append(lacking, QuoteIdentifier(a.name))
		}
	}
	columns := ""
	switch {
	case len(lacking) == 0 && f.originReadable:
		return grants
	case len(lacking) < len(f.attributes):
		if !f.originReadable {
			lacking = append(lacking, "tableoid")
		}
		columns = " (" + strings.Join(lacking, ", ") + ")"
	}
	return append(grants, "GRANT SELECT"+columns+" ON "+QuoteIdentifier(f.schema)+"."+QuoteIdentifier(f.name)+" TO "+role)
}

// Refusal is the halt that forbids to read the table, or nil.
func (t *Table) Refusal() error {
	var halt *core.Halt
	switch {
	case len(t.Missing) > 0:
		halt = core.NewHalt(core.HaltSourceRights, "snapshot", "the role may not read all that is published: %s", strings.Join(t.Missing, "; "))
	case t.RowSecurity:
		halt = core.NewHalt(core.HaltSourceRights, "snapshot",
			"row level security would hide rows from this role: it needs BYPASSRLS, or to own the table")
	default:
		return nil
	}
	halt.Relation = t.String()
	return halt
}
