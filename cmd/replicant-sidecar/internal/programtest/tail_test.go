package programtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// things makes a table and transactions with every kind of change and value.
func things(t *testing.T, db *pgtest.DB) {
	db.Exec(t,
		`CREATE TABLE things (id int PRIMARY KEY, "Odd ""name" text, big text)`,
		`ALTER TABLE things ALTER big SET STORAGE EXTERNAL`,
		`CREATE TABLE whole (a int, b text)`, `ALTER TABLE whole REPLICA IDENTITY FULL`,
		`CREATE PUBLICATION shop FOR ALL TABLES`)
}

func changeThings(t *testing.T, db *pgtest.DB) {
	db.Exec(t,
		`INSERT INTO things VALUES (1, E'line\nbreak "\\ \u001b[31mred', repeat('x', 9000)), (2, NULL, '')`,
		`UPDATE things SET "Odd ""name" = 'ü' WHERE id = 1`,
		`UPDATE things SET id = 3 WHERE id = 2`,
		`INSERT INTO whole VALUES (1, 'one')`,
		`DELETE FROM whole`,
		`TRUNCATE things, whole RESTART IDENTITY CASCADE`,
		`SELECT pg_logical_emit_message(true, 'note', 'hello')`,
	)
}

const transactions = 6 // logical messages are not asked for

func (p *process) waiting() {
	p.t.Helper()
	p.says("waiting for transactions")
	p.says(`"streaming"`)
}

func TestTailJSON(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		db := pg.Database(t)
		things(t, db)
		file := filepath.Join(t.TempDir(), "sidecar.yaml") // with a setting that tail has no use for
		require.NoError(t, os.WriteFile(file, []byte("snapshot: initial\n"), 0o600))
		p := launch(t, db, "tail", "-o", "json", "--config", file, "--limit", strconv.Itoa(transactions))
		p.waiting()
		changeThings(t, db)
		require.Equal(t, 0, p.exit())
		lines := strings.Split(strings.TrimSuffix(p.out.String(), "\n"), "\n")
		require.Len(t, lines, transactions)
		var got []string
		last := uint64(0)
		for _, l := range lines {
			var entry struct {
				XID       uint32
				CommitLSN string          `json:"commit_lsn"`
				EndLSN    string          `json:"end_lsn"`
				EndText   string          `json:"end_lsn_text"`
				Time      time.Time       `json:"commit_time"`
				Changes   json.RawMessage `json:"changes"`
				Count     int             `json:"change_count"`
			}
			require.NoError(t, json.Unmarshal([]byte(l), &entry), l)
			end, err := strconv.ParseUint(entry.EndLSN, 10, 64)
			require.NoError(t, err)
			require.Greater(t, end, last)
			last = end
			parsed, err := core.ParseLSN(entry.EndText)
			require.NoError(t, err)
			require.Equal(t, core.LSN(end), parsed)
			require.NotZero(t, entry.XID)
			require.WithinDuration(t, time.Now(), entry.Time, time.Minute)
			got = append(got, strings.ReplaceAll(string(entry.Changes), strings.Repeat("x", 9000), "LONG"))
		}
		require.Equal(t, []string{
			`[{"op":"insert","schema":"public","table":"things","new":{"id":"1","Odd \"name":"line\nbreak \"\\ \u001b[31mred","big":"LONG"}},` +
				`{"op":"insert","schema":"public","table":"things","new":{"id":"2","Odd \"name":null,"big":""}}]`,
			`[{"op":"update","schema":"public","table":"things","new":{"id":"1","Odd \"name":"ü","big":{"unchanged":true}}}]`,
			`[{"op":"update","schema":"public","table":"things","old_kind":"key","old":{"id":"2"},"new":{"id":"3","Odd \"name":null,"big":""}}]`,
			`[{"op":"insert","schema":"public","table":"whole","new":{"a":"1","b":"one"}}]`,
			`[{"op":"delete","schema":"public","table":"whole","old_kind":"full","old":{"a":"1","b":"one"}}]`,
			`[{"op":"truncate","tables":[{"schema":"public","table":"things"},{"schema":"public","table":"whole"}],"cascade":true,"restart_identity":true}]`,
		}, got)
		// The server ends its session a moment after we are gone.
		p.until("the temporary slot is gone", func() bool { return len(slots(t, db)) == 0 })
	})
}

func slots(t *testing.T, db *pgtest.DB) []string {
	conn := db.Conn(t)
	rows, err := conn.Query(t.Context(), `SELECT slot_name::text FROM pg_replication_slots WHERE database = current_database()`)
	require.NoError(t, err)
	var names []string
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		names = append(names, name)
	}
	require.NoError(t, rows.Err())
	return names
}

func TestTailTextIsSafeForATerminal(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	things(t, db)
	p := launch(t, db, "tail")
	p.waiting()
	changeThings(t, db)
	p.says("TRUNCATE")
	p.says("changes 1\n")
	p.signal(syscall.SIGINT)
	require.Equal(t, 0, p.exit())
	text := p.out.String()
	require.NotContains(t, text, "\x1b")
	for _, want := range []string{
		`  INSERT public.things id="1" "Odd \"name"="line\nbreak \"\\ \x1b[31mred" big="xxx`,
		`  INSERT public.things id="2" "Odd \"name"=null big=""` + "\n",
		`  UPDATE public.things id="1" "Odd \"name"="ü" big=(unchanged)` + "\n",
		`  UPDATE public.things where id="2" new id="3" "Odd \"name"=null big=""` + "\n",
		`  DELETE public.whole old a="1" b="one"` + "\n",
		`  TRUNCATE public.things, public.whole RESTART IDENTITY CASCADE` + "\n",
	} {
		require.Contains(t, text, want)
	}
	require.Equal(t, transactions, strings.Count(text, "BEGIN "))
	require.Equal(t, transactions, strings.Count(text, "COMMIT "))
}

// What the limit left out is still in a slot of one's own; a strange slot is not touched.
func TestTailWithASlotOfItsOwn(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	shop(t, db)
	p := launch(t, db, "tail", "--slot", slotOf(db), "-o", "json", "--limit", "2")
	p.waiting()
	insert(t, db, 1, 5)
	require.Equal(t, 0, p.exit())
	require.Equal(t, 2, strings.Count(p.out.String(), "\n"))
	require.Equal(t, []string{slotOf(db)}, slots(t, db))

	p = launch(t, db, "tail", "--slot", slotOf(db), "-o", "json", "--limit", "1")
	require.Equal(t, 4, p.exit())
	require.Contains(t, p.err.String(), "checkpoint_missing")

	p = launch(t, db, "tail", "--slot", slotOf(db), "--adopt-slot", "-o", "json", "--limit", "3")
	require.Equal(t, 0, p.exit())
	for id, l := range strings.Split(strings.TrimSpace(p.out.String()), "\n") {
		require.Contains(t, l, `"new":{"id":"`+strconv.Itoa(id+3)+`"`)
	}
}

// A transaction far above what one call takes is printed whole, or not at all.
func TestTailLargeTransaction(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	things(t, db)
	p := launch(t, db, "tail", "-o", "json", "--limit", "1")
	p.waiting()
	db.Exec(t, `INSERT INTO things SELECT i, 'n', repeat('y', 3000) FROM generate_series(1, 3000) i`)
	require.Equal(t, 0, p.exit())
	var entry struct {
		Changes []struct{ New map[string]string }
		Count   int `json:"change_count"`
	}
	require.NoError(t, json.Unmarshal([]byte(p.out.String()), &entry))
	require.Equal(t, 3000, entry.Count)
	require.Len(t, entry.Changes, 3000)
	require.Equal(t, "3000", entry.Changes[2999].New["id"])
}

func TestTailHalts(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	p := launch(t, db, "tail")
	require.Equal(t, 4, p.exit())
	require.Contains(t, p.err.String(), "publication_missing")
	require.Contains(t, p.err.String(), "what to do:")
}
