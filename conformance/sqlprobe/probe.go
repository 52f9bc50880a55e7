package sqlprobe

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// Options says what to read.
type Options struct {
	// DSN is "postgres://..." or "sqlite:PATH".
	DSN string
	// Table names a table, with {schema} and {table}; "{schema}.{table}" when empty. Of
	// Postgres the first dot parts schema and table unless the template is quoted by
	// itself. It is not used where the sink keeps a list of names.
	Table string
	// Hidden are columns of the sink's own, which are left out.
	Hidden []string
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Probe reads one store.
type Probe struct {
	options Options
	dialect dialect
	open    func(ctx context.Context) (*sql.DB, error)
}

// New makes a probe. Nothing is opened yet: a SQLite file may not be there before the sink
// has started.
func New(o Options) (*Probe, error) {
	if o.Table == "" {
		o.Table = "{schema}.{table}"
	}
	scheme, rest, _ := strings.Cut(o.DSN, ":")
	switch scheme {
	case "postgres", "postgresql":
		return &Probe{options: o, dialect: postgres, open: func(context.Context) (*sql.DB, error) {
			return sql.Open("pgx", o.DSN)
		}}, nil
	case "sqlite":
		if rest == "" {
			return nil, errors.New("sqlite: no path")
		}
		return &Probe{options: o, dialect: sqlite, open: func(ctx context.Context) (*sql.DB, error) {
			return openSQLite(ctx, rest)
		}}, nil
	}
	return nil, fmt.Errorf("a DSN begins with postgres:// or sqlite:, not %q", scheme)
}

// openSQLite opens a file for reading. A file that needs its recovery first, since its
// writer was killed, is opened for writing once: the recovery is what the sink would do.
func openSQLite(ctx context.Context, path string) (*sql.DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	uri := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=busy_timeout(20000)&mode="
	for _, mode := range []string{"ro", "rw"} {
		db, err := sql.Open("sqlite", uri+mode)
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(1)
		var n int
		if err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n); err == nil {
			return db, nil
		}
		_ = db.Close()
		if mode == "rw" {
			return nil, fmt.Errorf("the SQLite file cannot be read: %w", err)
		}
	}
	return nil, errors.New("unreachable")
}

// stored is a table as the store names it.
type stored struct {
	schema, table string
	// names are the columns: as Postgres names them, and as the store does.
	names, columns []string
}

// ReadTable reads all rows of a table in one view.
func (p *Probe) ReadTable(ctx context.Context, schema, table string) (conformance.Table, error) {
	missing := conformance.Table{Missing: true}
	db, err := p.open(ctx)
	if errors.Is(err, os.ErrNotExist) {
		return missing, nil
	}
	if err != nil {
		return missing, err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: p.dialect.readOnly(), Isolation: p.dialect.isolation()})
	if err != nil {
		return missing, err
	}
	defer func() { _ = tx.Rollback() }()
	s, err := p.find(ctx, tx, schema, table)
	if err != nil || s == nil {
		return missing, err
	}
	return p.read(ctx, tx, s)
}

// find looks a table up in the sink's list of names, else by the template.
func (p *Probe) find(ctx context.Context, db querier, schema, table string) (*stored, error) {
	list, err := p.dialect.columns(ctx, db, "", "_replicant_columns")
	if err != nil {
		return nil, err
	}
	if slices.Contains(list, "pg_schema") && slices.Contains(list, "column") {
		return p.listed(ctx, db, schema, table)
	}
	s := &stored{schema: schema, table: table}
	if p.options.Table != "{schema}.{table}" || p.dialect.flat {
		s.schema = ""
		s.table = strings.NewReplacer("{schema}", schema, "{table}", table).Replace(p.options.Table)
	}
	if s.columns, err = p.dialect.columns(ctx, db, s.schema, s.table); err != nil || len(s.columns) == 0 {
		return nil, err
	}
	s.columns = slices.DeleteFunc(s.columns, func(name string) bool { return slices.Contains(p.options.Hidden, name) })
	s.names = s.columns
	return s, nil
}

// listed reads the sink's list of names.
func (p *Probe) listed(ctx context.Context, db querier, schema, table string) (*stored, error) {
	rows, err := db.QueryContext(ctx, p.dialect.list, schema, table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	s := &stored{}
	for rows.Next() {
		var name, column string
		if err := rows.Scan(&s.table, &name, &column); err != nil {
			return nil, err
		}
		s.names, s.columns = append(s.names, name), append(s.columns, column)
	}
	if len(s.names) == 0 {
		return nil, rows.Err()
	}
	return s, rows.Err()
}

func (p *Probe) read(ctx context.Context, db querier, s *stored) (conformance.Table, error) {
	var list []string
	for _, c := range s.columns {
		list = append(list, p.dialect.cast(quote(c)))
	}
	name := quote(s.table)
	if s.schema != "" {
		name = quote(s.schema) + "." + name
	}
	rows, err := db.QueryContext(ctx, "SELECT "+strings.Join(list, ", ")+" FROM "+name)
	if err != nil {
		return conformance.Table{}, err
	}
	defer rows.Close()
	out := conformance.Table{Columns: s.names}
	for rows.Next() {
		values := make([]conformance.Value, len(s.columns))
		into := make([]any, len(s.columns))
		cells := make([]sql.RawBytes, len(s.columns))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := rows.Scan(into...); err != nil {
			return conformance.Table{}, err
		}
		for i, c := range cells {
			if len(c) == 0 {
				values[i] = conformance.Value{Null: true}
				continue
			}
			values[i] = conformance.Value{Text: append([]byte{}, c[1:]...)}
		}
		out.Rows = append(out.Rows, values)
	}
	return out, rows.Err()
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Reset does nothing: each case has a schema of its own.
func (p *Probe) Reset(context.Context, string) error { return nil }

// WorksStopped reports that the store is read without the sink.
func (p *Probe) WorksStopped() bool { return true }

// Close does nothing: each read opens the store anew, as after a crash.
func (p *Probe) Close() error { return nil }
