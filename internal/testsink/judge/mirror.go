package judge

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// MirrorReport is the comparison of all published tables.
type MirrorReport struct {
	Tables, Rows int
	Differences  []string
}

// Err is nil when the mirror equals the source and there was something to compare.
func (r MirrorReport) Err() error {
	switch {
	case r.Tables == 0:
		return &Breach{"VAL: no table was compared"}
	case len(r.Differences) > 0:
		return &Breach{"VAL: " + strings.Join(r.Differences, "; ")}
	}
	return nil
}

// Mirror compares every table of a publication with the mirror's table of the same name,
// row by row, as text under pinned settings. Both sides must be at rest. What the
// publication leaves out, columns and rows, is left out of the comparison.
func Mirror(ctx context.Context, source, mirror, publication string) (r MirrorReport, err error) {
	from, err := connect(ctx, source)
	if err != nil {
		return r, err
	}
	defer from.Close(context.WithoutCancel(ctx))
	to, err := connect(ctx, mirror)
	if err != nil {
		return r, err
	}
	defer to.Close(context.WithoutCancel(ctx))
	tables, err := published(ctx, from, publication)
	if err != nil {
		return r, err
	}
	for _, t := range tables {
		differences, rows, err := compare(ctx, from, to, t)
		if err != nil {
			return r, err
		}
		r.Tables++
		r.Rows += rows
		r.Differences = append(r.Differences, differences...)
	}
	return r, nil
}

// table is one published table.
type table struct {
	name    string // quoted
	filter  string
	columns []string // quoted, sorted by name
}

// published lists a publication's tables with the columns that are streamed: those of a
// column list (15 and later), else all; generated ones only where 18 says so.
func published(ctx context.Context, source *pgconn.PgConn, publication string) (list []table, err error) {
	columns, filter, stored := "NULL::name[]", "NULL", "a.attgenerated = ''"
	switch strings.SplitN(source.ParameterStatus("server_version"), ".", 2)[0] {
	case "14":
	case "15", "16", "17":
		columns, filter = "p.attnames", "p.rowfilter"
	default:
		columns, filter, stored = "p.attnames", "p.rowfilter", "true"
	}
	sql := `SELECT quote_ident(p.schemaname) || '.' || quote_ident(p.tablename), ` + filter + `, quote_ident(a.attname)
FROM pg_publication_tables p JOIN pg_class c ON c.relname = p.tablename
JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = p.schemaname
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
AND ` + stored + ` AND (` + columns + ` IS NULL OR a.attname = ANY (` + columns + `))
WHERE p.pubname = $1 ORDER BY 1, a.attname COLLATE "C"`
	err = query(ctx, source, sql, func(v [][]byte) error {
		name := string(v[0])
		if len(list) == 0 || list[len(list)-1].name != name {
			list = append(list, table{name: name, filter: string(v[1])})
		}
		if v[2] != nil {
			last := &list[len(list)-1]
			last.columns = append(last.columns, string(v[2]))
		}
		return nil
	}, publication)
	return list, err
}

// compare lists how one table differs.
func compare(ctx context.Context, source, mirror *pgconn.PgConn, t table) (differences []string, rows int, err error) {
	there, exists, key, err := mirrored(ctx, mirror, t.name)
	if err != nil {
		return nil, 0, err
	}
	left, err := read(ctx, source, t, t.filter, key)
	if err != nil {
		return nil, 0, err
	}
	if !exists {
		if left.rows > 0 {
			differences = append(differences, fmt.Sprintf("%s: %d rows, and no table in the mirror", t.name, left.rows))
		}
		return differences, left.rows, nil
	}
	if !slices.Equal(there, t.columns) {
		return []string{fmt.Sprintf("%s: columns %v are (%v) in the mirror", t.name, t.columns, there)}, left.rows, nil
	}
	right, err := read(ctx, mirror, t, "", key)
	if err != nil {
		return nil, 0, err
	}
	return left.against(right, t), left.rows, nil
}

// mirrored reads the mirror's columns, sorted by name, and which of them are its key.
func mirrored(ctx context.Context, mirror *pgconn.PgConn, name string) (columns []string, exists bool, key []bool, err error) {
	err = query(ctx, mirror, `SELECT r.oid IS NOT NULL, quote_ident(a.attname), EXISTS (SELECT FROM pg_index i
WHERE i.indrelid = r.oid AND i.indisprimary AND a.attnum = ANY (i.indkey::int2[]))
FROM (SELECT to_regclass($1) AS oid) r LEFT JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
AND a.attname NOT IN ('testsink.snapshot', 'testsink.generation') ORDER BY a.attname COLLATE "C"`, func(v [][]byte) error {
		exists = string(v[0]) == "t"
		if v[1] != nil {
			columns, key = append(columns, string(v[1])), append(key, string(v[2]) == "t")
		}
		return nil
	}, name)
	return columns, exists, key, err
}

// content is a table's rows as fingerprints: 8 bytes a column, and the whole rows counted.
type content struct {
	rows  int
	whole map[string]int
	byKey map[string]string // key to row, in tables with one
}

var seed = maphash.MakeSeed()

func read(ctx context.Context, conn *pgconn.PgConn, t table, filter string, key []bool) (content, error) {
	c := content{whole: map[string]int{}, byKey: map[string]string{}}
	sql := "SELECT " + strings.Join(t.columns, ", ") + " FROM " + t.name
	if filter != "" {
		sql += " WHERE " + filter
	}
	var print, keyPrint []byte
	err := query(ctx, conn, sql, func(v [][]byte) error {
		print, keyPrint = print[:0], keyPrint[:0]
		for i, value := range v {
			sum := uint64(0) // NULL
			if value != nil {
				sum = maphash.Bytes(seed, value) | 1
			}
			print = binary.BigEndian.AppendUint64(print, sum)
			if i < len(key) && key[i] {
				keyPrint = binary.BigEndian.AppendUint64(keyPrint, sum)
			}
		}
		c.rows++
		c.whole[string(print)]++
		if len(keyPrint) > 0 {
			c.byKey[string(keyPrint)] = string(print)
		}
		return nil
	})
	return c, err
}

// against lists what the mirror has otherwise. Rows that share a key are told as rows
// that differ, with the columns in question.
func (source content) against(mirror content, t table) []string {
	var only, foreign, differ int
	columns := map[string]bool{}
	for print, n := range source.whole {
		only += max(0, n-mirror.whole[print])
	}
	for print, n := range mirror.whole {
		foreign += max(0, n-source.whole[print])
	}
	if only+foreign == 0 {
		return nil
	}
	for key, print := range source.byKey {
		other, found := mirror.byKey[key]
		if !found || other == print {
			continue
		}
		differ++
		for i := range t.columns {
			if print[8*i:8*i+8] != other[8*i:8*i+8] {
				columns[t.columns[i]] = true
			}
		}
	}
	names := make([]string, 0, len(columns))
	for name := range columns {
		names = append(names, name)
	}
	slices.Sort(names)
	return []string{fmt.Sprintf("%s: %d rows are missing, %d are foreign, %d differ in %v",
		t.name, only-differ, foreign-differ, differ, names)}
}
