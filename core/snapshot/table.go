package snapshot

import (
	"strconv"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Table is one relation as the publications stream it now.
type Table struct {
	// Relation is what the stream's Relation message says: OID, names, replica identity,
	// and the streamed columns in their order. Type names and the like are not set;
	// wal.Catalog.Describe adds them.
	Relation core.Relation
	// Filter is the row filter as an SQL expression over the bare column names; empty
	// when all rows are streamed. Filters of several publications are joined by OR.
	Filter string
	// Partitioned is true for the root of a partition tree that is streamed under its
	// own name: it is read without ONLY.
	Partitioned bool
	// Leaves are the relations that hold the rows: the table itself, or the partitions
	// whose rows are streamed (foreign and unlogged ones are not).
	Leaves []Leaf
	// Key lists positions in Relation.Columns that identify a row, in the order of the
	// index; nil where the stream cannot name a row by a key. KeyIndex is the index's OID.
	Key      []int
	KeyIndex uint32
	// KeyCollations has for each column of the key its collation and that one's version, as
	// text to be compared; empty where the type has none.
	KeyCollations []string
	// RowSecurity is true when policies would hide rows from this role: reading then
	// fails instead of leaving rows out.
	RowSecurity bool
	// Missing is the statements that give this role the rights to read the rows; none where
	// it may.
	Missing []string
}

// Leaf is a relation with rows of its own.
type Leaf struct {
	OID          uint32
	Schema, Name string
	// Pages is its present size, Rows the planner's estimate, -1 when it has none. Bytes
	// counts TOAST too.
	Pages, Rows, Bytes int64
	// Ranged is true where rows can be read by ranges of pages.
	Ranged bool
	// Readable is false when this role may read the rows through the root alone.
	Readable bool
	// Filenode names the storage; another one means that the table was rewritten.
	Filenode uint32
}

// HasKey reports whether rows can be told apart by key.
func (t *Table) HasKey() bool { return len(t.Key) > 0 }

// EstimatedRows is the planner's estimate, -1 when any part has none.
func (t *Table) EstimatedRows() int64 {
	var sum int64
	for _, l := range t.Leaves {
		if l.Rows < 0 {
			return -1
		}
		sum += l.Rows
	}
	return sum
}

// EstimatedBytes is what the table takes on the source's disk, indexes left out.
func (t *Table) EstimatedBytes() int64 {
	var sum int64
	for _, l := range t.Leaves {
		sum += l.Bytes
	}
	return sum
}

// String is schema and name for people.
func (t *Table) String() string { return t.Relation.String() }

// Columns is the select list: the streamed columns by name, without casts, so that each
// is printed by its own output function, as the stream does.
func (t *Table) Columns() string {
	names := make([]string, len(t.Relation.Columns))
	for i := range t.Relation.Columns {
		names[i] = QuoteIdentifier(t.Relation.Columns[i].Name)
	}
	return strings.Join(names, ", ")
}

// Name is the table's name, quoted and qualified.
func (t *Table) Name() string {
	return QuoteIdentifier(t.Relation.Schema) + "." + QuoteIdentifier(t.Relation.Name)
}

// From is the table as it stands behind FROM and LOCK TABLE: children by inheritance are
// relations of their own on the stream, partitions of a root are not.
func (t *Table) From() string {
	if t.Partitioned {
		return t.Name()
	}
	return "ONLY " + t.Name()
}

// Where joins conditions, which hold no outer OR, with the row filter. It is empty when
// there is nothing to test. Under a root only the partitions are read that are streamed.
func (t *Table) Where(conditions ...string) string {
	var all []string
	for _, c := range conditions {
		if c != "" {
			all = append(all, c)
		}
	}
	if t.Partitioned {
		oids := make([]string, len(t.Leaves))
		for i, l := range t.Leaves {
			oids[i] = strconv.FormatUint(uint64(l.OID), 10)
		}
		all = append(all, "tableoid = ANY ('{"+strings.Join(oids, ",")+"}'::pg_catalog.oid[])")
	}
	if t.Filter != "" {
		all = append(all, "("+t.Filter+")")
	}
	if len(all) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(all, " AND ")
}

// Select is the statement that reads rows of the whole table, tail being ORDER BY, LIMIT
// and the like.
func (t *Table) Select(tail string, conditions ...string) string {
	return "SELECT " + t.Columns() + " FROM " + t.From() + t.Where(conditions...) + tail
}

// Part is a piece of a table that one statement reads: a leaf or a range of its pages,
// or the whole where Leaf is nil.
type Part struct {
	Table *Table
	Leaf  *Leaf
	// First and Beyond are pages; Beyond 0 has no end.
	First, Beyond int64
}

// Copy is the statement that sends the rows of the part.
func (p Part) Copy() string {
	t := p.Table
	if p.Leaf == nil {
		return "COPY (" + t.Select("") + ") TO STDOUT"
	}
	var conditions []string
	if p.First > 0 {
		conditions = append(conditions, "ctid >= '("+strconv.FormatInt(p.First, 10)+",0)'::pg_catalog.tid")
	}
	if p.Beyond > 0 {
		conditions = append(conditions, "ctid < '("+strconv.FormatInt(p.Beyond, 10)+",0)'::pg_catalog.tid")
	}
	leaf := *t // the columns and the filter are found by name in every partition
	leaf.Partitioned = false
	leaf.Relation.Schema, leaf.Relation.Name = p.Leaf.Schema, p.Leaf.Name
	return "COPY (" + leaf.Select("", conditions...) + ") TO STDOUT"
}

// Parts cuts the table into pieces of at most so many pages each; 0 cuts per leaf alone.
// There is at least one, for an empty table and for a root without partitions too.
func (t *Table) Parts(pages int64) []Part {
	var parts []Part
	for i := range t.Leaves {
		leaf := &t.Leaves[i]
		if !leaf.Readable {
			return []Part{{Table: t}}
		}
		if !leaf.Ranged || pages <= 0 {
			parts = append(parts, Part{Table: t, Leaf: leaf})
			continue
		}
		first := int64(0)
		for first+pages < leaf.Pages {
			parts = append(parts, Part{Table: t, Leaf: leaf, First: first, Beyond: first + pages})
			first += pages
		}
		parts = append(parts, Part{Table: t, Leaf: leaf, First: first})
	}
	if len(parts) == 0 {
		parts = append(parts, Part{Table: t})
	}
	return parts
}
