package mirror_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/sinktest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/sdk/go/mirror"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.NoLeaks()) }

// story is one story as statements, with what a mirror holds after each step.
type story struct {
	Name       string
	Table      *mirror.Table `json:"-"`
	Statements [][]mirror.Statement
	// Rows after each step: values, then both marks where the table has a key.
	Rows [][]string
	Read string
}

const seeds, length = 8, 60

// stories are told by Mirror, which has its own tests, and by the statements.
func stories(t *testing.T, dialect mirror.Dialect, name string) (list []story) {
	t.Helper()
	for seed := range uint64(seeds) {
		for _, relation := range []*core.Relation{sinktest.Keyed, sinktest.Keyless} {
			for _, holes := range []mirror.Holes{mirror.StoreHoles, mirror.IgnoreHoles} {
				list = append(list, tell(t, dialect, seed, relation, holes, name))
			}
		}
	}
	return list
}

func tell(t *testing.T, dialect mirror.Dialect, seed uint64, relation *core.Relation, holes mirror.Holes, name string) story {
	t.Helper()
	s := story{Name: fmt.Sprintf("%s seed %d holes %d", relation, seed, holes)}
	s.Table = mirror.New(dialect, relation, mirror.Options{Name: name, Holes: holes})
	reference := sinktest.Mirror{IgnoreHoles: holes == mirror.IgnoreHoles}
	generation := uint64(0)
	for _, step := range sinktest.Steps(seed, length, relation) {
		var list []mirror.Statement
		var err error
		switch {
		case step.Unit != nil:
			generation = max(generation, step.Unit.Generation)
			reference.Snapshot(step.Unit)
			list, err = s.Table.Snapshot(step.Unit)
		case step.Change.Op == core.OpTruncate:
			reference.Apply([]core.Change{*step.Change})
			list = []mirror.Statement{s.Table.Truncate()}
		default:
			reference.Apply([]core.Change{*step.Change})
			list, err = s.Table.Change(step.Change, generation)
		}
		require.NoError(t, err)
		s.Statements = append(s.Statements, list)
		s.Rows = append(s.Rows, shown(reference.Rows(relation.Schema, relation.Name), relation))
	}
	s.Read = "SELECT coalesce(a, '-') || ' ' || coalesce(b, '-') || ' ' || coalesce(n, '-') || ' ' || coalesce(doc, '-')"
	if relation == sinktest.Keyed {
		s.Read += ` || ' ' || CASE WHEN "replicant.copied" THEN 'c' ELSE 's' END || "replicant.generation"`
	}
	s.Read += " FROM " + name
	return s
}

// shown is what the stores are asked for: unknown and NULL are one to them.
func shown(rows []sinktest.Row, relation *core.Relation) []string {
	list := []string{}
	for _, r := range rows {
		var parts []string
		for _, name := range []string{"a", "b", "n", "doc"} {
			text := "-"
			if v := r.Values[name]; v.Kind == core.ValueText {
				text = string(v.Text)
			}
			parts = append(parts, text)
		}
		if relation == sinktest.Keyed {
			parts = append(parts, fmt.Sprintf("%s%d", map[bool]string{true: "c", false: "s"}[r.FromSnapshot], r.Generation))
		}
		list = append(list, strings.Join(parts, " "))
	}
	slices.Sort(list)
	return list
}

func create(table *mirror.Table, name, columnType string) string {
	var columns []string
	for _, c := range []string{"a", "b", "n", "doc"} {
		columns = append(columns, mirror.Quote(c)+columnType)
	}
	columns = append(columns, table.Marks()...)
	if key := table.Key(); len(key) > 0 {
		columns = append(columns, "PRIMARY KEY ("+strings.Join(key, ", ")+")")
	}
	return "CREATE TABLE " + name + " (" + strings.Join(columns, ", ") + ")"
}

// The statements hold in Postgres what the contract says, after every step of every story.
func TestStatementsInPostgres(t *testing.T) {
	conn := pgtest.Shared(t, 17).Database(t).Conn(t)
	const name = `pg_temp."t"`
	for _, s := range stories(t, mirror.Postgres(), name) {
		run := func(sql string, args ...any) {
			_, err := conn.Exec(t.Context(), sql, args...)
			require.NoError(t, err, "%s: %s", s.Name, sql)
		}
		run("BEGIN")
		run(create(s.Table, name, " text"))
		for i, statements := range s.Statements {
			for _, one := range statements {
				run(one.SQL, one.Args...)
			}
			rows, err := conn.Query(t.Context(), s.Read)
			require.NoError(t, err)
			got, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			slices.Sort(got)
			require.Equal(t, s.Rows[i], append([]string{}, got...), "%s, step %d", s.Name, i)
		}
		run("ROLLBACK")
	}
}

// SQLite is asked through Python, which has it.
const inSQLite = `
import json, sqlite3, sys
steps = 0
for line in sys.stdin:
    story = json.loads(line)
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute(story["Create"])
    for statements, rows in zip(story["Statements"], story["Rows"]):
        for one in statements or []:
            db.execute(one["SQL"], one["Args"] or [])
        got = sorted(row[0] for row in db.execute(story["Read"]))
        if got != rows:
            sys.exit(f'{story["Name"]}: {statements}: {got}, should be {rows}')
        steps += 1
print(steps)
`

func TestStatementsInSQLite(t *testing.T) {
	var input strings.Builder
	list := stories(t, mirror.SQLite(), `"t"`)
	for _, s := range list {
		line, err := json.Marshal(struct {
			story
			Create string
		}{s, create(s.Table, `"t"`, "")})
		require.NoError(t, err)
		input.Write(append(line, '\n'))
	}
	python := exec.CommandContext(t.Context(), "python3", "-c", inSQLite)
	python.Stdin = strings.NewReader(input.String())
	output, err := python.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Equal(t, fmt.Sprint(len(list)*length), strings.TrimSpace(string(output)))
}

// What a change needs and does not have is refused; a refusal of Value comes back as it is.
func TestRefusals(t *testing.T) {
	refusal := &core.Refusal{Reason: core.ReasonValueUnrepresentable}
	table := mirror.New(mirror.Postgres(), sinktest.Keyed, mirror.Options{Value: func(*core.Column, []byte) (any, error) { return nil, refusal }})
	row := core.PackTuple(core.Text("1"), core.Null(), core.Text("k"), core.Null())
	_, err := table.Change(&core.Change{Op: core.OpInsert, Relation: sinktest.Keyed, New: row}, 0)
	require.ErrorIs(t, err, refusal)
	_, err = table.Snapshot(&core.SnapshotUnit{Relation: sinktest.Keyed, Rows: []core.Tuple{row}})
	require.ErrorIs(t, err, refusal)
	table = mirror.New(mirror.Postgres(), sinktest.Keyed, mirror.Options{})
	absent := core.Value{Kind: core.ValueAbsent}
	keyless := core.PackTuple(absent, core.Null(), core.Text("k"), core.Null())
	for _, c := range []core.Change{
		{Op: core.OpInsert, Relation: sinktest.Keyed, New: keyless},
		{Op: core.OpDelete, Relation: sinktest.Keyed, Old: keyless, OldKind: core.OldKey},
		{Op: core.OpUpdate, Relation: sinktest.Keyed, New: row, Old: keyless, OldKind: core.OldKey},
	} {
		_, err := table.Change(&c, 0)
		require.Error(t, err)
	}
	_, err = table.Snapshot(&core.SnapshotUnit{Relation: sinktest.Keyed, Rows: []core.Tuple{keyless}})
	require.Error(t, err)
}
