package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os/exec"
	"sort"

	"github.com/jackc/pgx/v5"

	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
)

// table is what one side holds: columns by name, rows as exact bytes, nil for NULL, in
// a fixed order, so that two equal tables are equal line by line.
type table struct {
	columns []string
	rows    []row
}

type row [][]byte

// readSource reads every table in one snapshot, as the text that Postgres prints under
// the same settings as the stream.
func readSource(ctx context.Context, shop *shop) (map[string]table, error) {
	return readTables(ctx, shop.pg, shop.pg.DSN(database), tables)
}

func readTables(ctx context.Context, pg *pgembed.Server, dsn string, names []string) (map[string]table, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	for _, pinned := range wal.PinnedSettings() {
		if pinned.Since <= pg.Bin().Major {
			config.RuntimeParams[pinned.Name] = pinned.Value
		}
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "begin isolation level repeatable read read only"); err != nil {
		return nil, err
	}
	found := map[string]table{}
	for _, name := range names {
		if found[name], err = readTable(ctx, conn, name); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func readTable(ctx context.Context, conn *pgx.Conn, name string) (table, error) {
	rows, err := conn.Query(ctx, "select * from "+pgx.Identifier{"public", name}.Sanitize())
	if err != nil {
		return table{}, err
	}
	defer rows.Close()
	var t table
	for _, f := range rows.FieldDescriptions() {
		t.columns = append(t.columns, f.Name)
	}
	for rows.Next() {
		var one row
		for _, v := range rows.RawValues() {
			one = append(one, bytes.Clone(v))
		}
		t.rows = append(t.rows, one)
	}
	t.sort()
	return t, rows.Err()
}

// readSink runs the reader's command. Its lines: {"schema","table","columns","rows"},
// followed by that many {"row": [...]} of base64 or null; other lines are passed over.
func readSink(ctx context.Context, command []string) (map[string]table, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the reader failed: %w", err)
	}
	found := map[string]table{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 64<<20)
	name := ""
	for lines.Scan() {
		var line struct {
			Table   *string
			Columns []string
			Row     []*string
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("the reader printed a line that is no JSON")
		}
		switch {
		case line.Table != nil:
			name = *line.Table
			found[name] = table{columns: line.Columns}
		case line.Row != nil:
			one, err := decode(line.Row)
			if err != nil {
				return nil, err
			}
			t := found[name]
			t.rows = append(t.rows, one)
			found[name] = t
		}
	}
	for name, t := range found {
		t.sort()
		found[name] = t
	}
	return found, lines.Err()
}

func decode(values []*string) (row, error) {
	one := make(row, len(values))
	for i, v := range values {
		if v == nil {
			continue
		}
		text, err := base64.StdEncoding.DecodeString(*v)
		if err != nil {
			return nil, fmt.Errorf("the reader printed a value that is no base64")
		}
		one[i] = text
		if one[i] == nil {
			one[i] = []byte{}
		}
	}
	return one, nil
}

// sort brings columns and rows into an order that depends on their content alone.
func (t *table) sort() {
	order := make([]int, len(t.columns))
	for i := range order {
		order[i] = i
	}
	sort.Slice(order, func(a, b int) bool { return t.columns[order[a]] < t.columns[order[b]] })
	columns := make([]string, len(order))
	for to, from := range order {
		columns[to] = t.columns[from]
	}
	for i, r := range t.rows {
		if len(r) != len(order) {
			continue // shows as a difference
		}
		moved := make(row, len(r))
		for to, from := range order {
			moved[to] = r[from]
		}
		t.rows[i] = moved
	}
	t.columns = columns
	sort.Slice(t.rows, func(a, b int) bool { return less(t.rows[a], t.rows[b]) })
}

func less(a, b row) bool {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == nil && b[i] != nil:
			return true
		case a[i] != nil && b[i] == nil:
			return false
		}
		if c := bytes.Compare(a[i], b[i]); c != 0 {
			return c < 0
		}
	}
	return len(a) < len(b)
}

// difference says where two tables differ, in numbers and column names, never values.
func difference(source, sink table) string {
	if fmt.Sprint(source.columns) != fmt.Sprint(sink.columns) {
		return fmt.Sprintf("the source has columns %q, the sink %q", source.columns, sink.columns)
	}
	if len(source.rows) != len(sink.rows) {
		return fmt.Sprintf("%d rows at the source, %d at the sink", len(source.rows), len(sink.rows))
	}
	for i := range source.rows {
		a, b := source.rows[i], sink.rows[i]
		if len(a) != len(b) {
			return fmt.Sprintf("row %d has %d columns at the source, %d at the sink", i, len(a), len(b))
		}
		for c := range a {
			if (a[c] == nil) != (b[c] == nil) || !bytes.Equal(a[c], b[c]) {
				return fmt.Sprintf("row %d differs in column %q", i, source.columns[c])
			}
		}
	}
	return ""
}
