package snapshot

import (
	"context"
	"slices"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// member is one relation as one publication streams it.
type member struct {
	publication string
	oid         string
	// attributes is the numbers of the streamed columns, as the server lists them, when
	// listed; else all columns are streamed.
	listed     bool
	attributes string
	filter     string
}

// readMembers asks the server itself what each publication streams: it resolves FOR ALL
// TABLES, schemas and publish_via_partition_root as its own subscriptions see them.
func readMembers(ctx context.Context, conn Querier, major int, publications []string) ([]member, error) {
	names := make([]string, len(publications))
	for i, name := range publications {
		names[i] = QuoteLiteral(name)
	}
	listed, attributes, filter := "false", "''", "''"
	if major >= 15 {
		listed, attributes = "g.attrs IS NOT NULL", "coalesce(g.attrs::text, '')"
		filter = "coalesce(pg_catalog.pg_get_expr(g.qual, g.relid), '')"
	}
	rows, err := query(ctx, conn, `SELECT p.pubname, g.relid::oid, `+listed+`, `+attributes+`, `+filter+`
FROM pg_catalog.pg_publication p, pg_catalog.pg_get_publication_tables(p.pubname::text) g
WHERE p.pubname IN (`+strings.Join(names, ", ")+`) ORDER BY 2, 1`)
	if err != nil {
		return nil, err
	}
	members := make([]member, 0, len(rows))
	for _, row := range rows {
		if len(row) != 5 {
			return nil, errShape
		}
		members = append(members, member{publication: row[0], oid: row[1], listed: row[2] == "t", attributes: row[3], filter: row[4]})
	}
	return members, nil
}

// union is a relation as all publications together stream it.
type union struct {
	oid     string
	members []member
}

// unite groups members by relation and leaves out what is streamed under the name of an
// ancestor, which covers is asked: a partitioned table is a member only where a
// publication streams it as root.
func unite(members []member, covered func(oid string, present func(string) bool) bool) []union {
	var all []union
	at := map[string]int{}
	for _, m := range members {
		i, ok := at[m.oid]
		if !ok {
			i = len(all)
			at[m.oid] = i
			all = append(all, union{oid: m.oid})
		}
		all[i].members = append(all[i].members, m)
	}
	present := func(oid string) bool { _, ok := at[oid]; return ok }
	return slices.DeleteFunc(all, func(u union) bool { return covered(u.oid, present) })
}

// filter is the OR of the members' row filters; one member without a filter streams all.
func (u union) filter() string {
	var filters []string
	for _, m := range u.members {
		if m.filter == "" {
			return ""
		}
		if !slices.Contains(filters, m.filter) {
			filters = append(filters, m.filter)
		}
	}
	return strings.Join(filters, " OR ")
}

// columns is the streamed ones of a relation's columns. Publications that differ are
// refused: the stream would fail at the table's first row.
func (u union) columns(relation string, all []attribute, major int) ([]attribute, error) {
	var first []attribute
	for i, m := range u.members {
		columns := m.columns(all, major)
		if i == 0 {
			first = columns
			continue
		}
		if !slices.EqualFunc(first, columns, func(a, b attribute) bool { return a.number == b.number }) {
			halt := core.NewHalt(core.HaltPublicationConflict, "snapshot",
				"publications %q and %q stream different columns of one table", u.members[0].publication, m.publication)
			halt.Relation = relation
			return nil, halt
		}
	}
	return first, nil
}

// columns follows the stream: dropped columns never, generated ones from 18 on and only
// where the publication names them.
func (m member) columns(all []attribute, major int) []attribute {
	listed := strings.Fields(m.attributes)
	var columns []attribute
	for _, a := range all {
		switch {
		case m.listed && !slices.Contains(listed, a.number):
		case a.generated && (major < 18 || !m.listed):
		default:
			columns = append(columns, a)
		}
	}
	return columns
}
