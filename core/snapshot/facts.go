package snapshot

import (
	"context"
	"strconv"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// readAncestors gives for each partition the tables above it.
func readAncestors(ctx context.Context, conn Querier, oids []string) (map[string][]string, error) {
	rows, err := query(ctx, conn, `SELECT c.oid, a.relid::oid FROM pg_catalog.pg_class c, pg_catalog.pg_partition_ancestors(c.oid) a
WHERE c.relispartition AND a.relid <> c.oid AND c.oid IN (`+strings.Join(oids, ", ")+`)`)
	if err != nil {
		return nil, err
	}
	ancestors := map[string][]string{}
	for _, row := range rows {
		ancestors[row[0]] = append(ancestors[row[0]], row[1])
	}
	return ancestors, nil
}

// readFacts asks for all relations at once, one question a subject.
func readFacts(ctx context.Context, conn Querier, oids []string, major int) (map[string]*facts, error) {
	list := strings.Join(oids, ", ")
	all := map[string]*facts{}
	for i, subject := range []struct {
		sql   string
		width int
		take  func(f *facts, row []string) error
	}{
		{relationSQL(list), 9, (*facts).takeRelation},
		{attributeSQL(list, major), 8, (*facts).takeAttribute},
		{indexSQL(list), 5, (*facts).takeIndex},
		{leafSQL(list), 10, (*facts).takeLeaf},
	} {
		rows, err := query(ctx, conn, subject.sql)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if len(row) != subject.width {
				return nil, errShape
			}
			f := all[row[0]]
			if f == nil {
				if i > 0 {
					continue // it came into being between two questions
				}
				f = &facts{}
				all[row[0]] = f
			}
			if err := subject.take(f, row); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// relationSQL: the rows of a root are read by the partition that they are in, which is a column
// of its own to the server's rights.
func relationSQL(list string) string {
	return `SELECT c.oid, n.nspname, c.relname, c.relreplident, c.relkind = 'p',
 coalesce(pg_catalog.row_security_active(c.oid), false), coalesce(pg_catalog.has_schema_privilege(n.oid, 'USAGE'), true),
 c.relkind <> 'p' OR coalesce(pg_catalog.has_column_privilege(c.oid, 'tableoid', 'SELECT'), true), current_user
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid IN (` + list + `)`
}

func (f *facts) takeRelation(row []string) (err error) {
	if f.oid, err = parseOID(row[0]); err != nil || len(row[3]) != 1 {
		return errShape
	}
	f.schema, f.name, f.identity = row[1], row[2], core.ReplicaIdentity(row[3][0])
	f.partitioned, f.rowSecurity = row[4] == "t", row[5] == "t"
	f.schemaUsable, f.originReadable, f.role = row[6] == "t", row[7] == "t", row[8]
	return nil
}

// attributeSQL: a right is unknown, and not missing, where the table or column has just gone.
// A collation is its OID with the version that the server's library has of it, as far as the
// server can tell: another version may sort in another way.
func attributeSQL(list string, major int) string {
	ofDatabase := "''"
	if major >= 15 {
		ofDatabase = "(SELECT pg_catalog.pg_database_collation_actual_version(d.oid) FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())"
	}
	return `SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attgenerated <> '',
 coalesce(pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT'), true),
 CASE a.attcollation WHEN 0 THEN '' WHEN 100 THEN '100 ' || coalesce(` + ofDatabase + `, '')
 ELSE a.attcollation::text || ' ' || coalesce(pg_catalog.pg_collation_actual_version(a.attcollation), '') END
FROM pg_catalog.pg_attribute a WHERE a.attrelid IN (` + list + `) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum`
}

func (f *facts) takeAttribute(row []string) error {
	typeOID, err := parseOID(row[3])
	if err != nil {
		return err
	}
	modifier, err := strconv.ParseInt(row[4], 10, 32)
	if err != nil {
		return errShape
	}
	f.attributes = append(f.attributes, attribute{
		number: row[1], name: row[2], typeOID: typeOID, modifier: int32(modifier),
		generated: row[5] == "t", readable: row[6] == "t", collation: row[7],
	})
	return nil
}

// indexSQL lists what the server itself takes for a replica identity: unique, valid,
// checked at once, over all rows and over columns alone.
func indexSQL(list string) string {
	return `SELECT i.indrelid, i.indexrelid, i.indisprimary, i.indisreplident,
 (SELECT pg_catalog.string_agg(k.number::text, ' ' ORDER BY k.place) FROM pg_catalog.unnest(i.indkey) WITH ORDINALITY AS k (number, place) WHERE k.place <= i.indnkeyatts)
FROM pg_catalog.pg_index i WHERE i.indrelid IN (` + list + `) AND i.indisunique AND i.indisvalid AND i.indimmediate
 AND i.indpred IS NULL AND i.indexprs IS NULL ORDER BY i.indrelid, i.indnkeyatts, i.indexrelid`
}

func (f *facts) takeIndex(row []string) error {
	oid, err := parseOID(row[1])
	if err != nil {
		return err
	}
	f.indexes = append(f.indexes, index{oid: oid, primary: row[2] == "t", replica: row[3] == "t", columns: strings.Fields(row[4])})
	return nil
}

// leafSQL lists the relations that hold rows. Partitions that the stream does not know
// are left out: foreign and unlogged ones.
func leafSQL(list string) string {
	return `SELECT r.oid, l.oid, n.nspname, l.relname,
 coalesce(pg_catalog.pg_relation_size(l.oid), 0) / pg_catalog.current_setting('block_size')::int8, l.reltuples,
 coalesce(pg_catalog.pg_table_size(l.oid), 0), coalesce(am.amname = 'heap', false),
 coalesce(pg_catalog.has_table_privilege(l.oid, 'SELECT'), true) AND NOT coalesce(pg_catalog.row_security_active(l.oid), false),
 coalesce(pg_catalog.pg_relation_filenode(l.oid), 0)
FROM pg_catalog.pg_class r
JOIN LATERAL (SELECT r.oid AS oid WHERE r.relkind <> 'p' UNION ALL
 SELECT t.relid::oid FROM pg_catalog.pg_partition_tree(r.oid) t WHERE r.relkind = 'p' AND t.isleaf) p ON true
JOIN pg_catalog.pg_class l ON l.oid = p.oid AND l.relkind = 'r' AND l.relpersistence = 'p'
JOIN pg_catalog.pg_namespace n ON n.oid = l.relnamespace
LEFT JOIN pg_catalog.pg_am am ON am.oid = l.relam
WHERE r.oid IN (` + list + `) ORDER BY r.oid, l.oid`
}

func (f *facts) takeLeaf(row []string) (err error) {
	l := Leaf{Schema: row[2], Name: row[3], Ranged: row[7] == "t", Readable: row[8] == "t"}
	if l.OID, err = parseOID(row[1]); err != nil {
		return err
	}
	if l.Filenode, err = parseOID(row[9]); err != nil {
		return err
	}
	for _, number := range []struct {
		into *int64
		text string
	}{{&l.Pages, row[4]}, {&l.Rows, row[5]}, {&l.Bytes, row[6]}} {
		if *number.into, err = parseCount(number.text); err != nil {
			return err
		}
	}
	f.leaves = append(f.leaves, l)
	return nil
}
