package judge_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/judge"
)

const makeLog = `CREATE SCHEMA testsink; CREATE TABLE testsink.log (seq serial, stream text, commit_lsn pg_lsn, ordinal bigint, op text, relation text, payload text, inserted_by int)`

// write fills a log with transactions, each two rows and a line of the ledger. A word is
// a transaction's number; "4a" stands for the first two of its three entries, "4b" for
// the last one.
func write(t *testing.T, db *pgtest.DB, words string) {
	t.Helper()
	db.Exec(t, makeLog)
	var sql strings.Builder
	for word := range strings.FieldsSeq(words) {
		var n int
		var part string
		_, _ = fmt.Sscanf(word, "%d%s", &n, &part)
		for ordinal := range 3 {
			if part == "a" && ordinal == 2 || part == "b" && ordinal < 2 {
				continue
			}
			relation, payload := "public.t", `{"new":{"id":"1"}}`
			if ordinal == 2 {
				relation, payload = judge.LedgerRelation, fmt.Sprintf(`{"new":{"shard":"1","tx":"%d","changes":"3"}}`, n)
			}
			fmt.Fprintf(&sql, "INSERT INTO testsink.log (stream, commit_lsn, ordinal, op, relation, payload, inserted_by) VALUES ('s', '0/%X', %d, 'insert', '%s', '%s', 7);",
				n*256, ordinal, relation, payload)
		}
	}
	db.Exec(t, sql.String())
}

func TestLogIsJudged(t *testing.T) {
	pg := pgtest.Shared(t, 17)
	for _, c := range []struct {
		words          string
		repeats        []int
		fault          string // in Faults
		against, order string // what these say
	}{
		{words: "1 2 3 4"},
		{words: "1 2 3 4 4", repeats: []int{1}},
		{words: "1 2 2 3 4", repeats: []int{1}},
		{words: "1 2 3 2 3 4", repeats: []int{2}},
		{words: "1 2 3 4 3 2 3 4", repeats: []int{1, 3}}, // killed again while repeating
		{words: "1 1 2 2 3 4", repeats: []int{1, 1}},
		{words: "1 2 3 2 4", repeats: []int{1}, fault: "a repeat ended 1 transactions before the last"},
		{words: "1 2 3 4 2", repeats: []int{1}, fault: "a repeat ended 2 transactions"},
		{words: "1 2 3 4 2 4", repeats: []int{1, 1}, fault: "a repeat goes from"},
		{words: "1 3 2 4", fault: "ORD: transaction 0/200 came after 0/300", order: "ORD"},
		{words: "1 2 4", against: "1 are missing", order: "ORD"},
		{words: "1 2 3 4 5", against: "1 are foreign"},
		{words: "1 2 3a 4", against: "1 are missing", order: "ORD"},
		{words: "1 2 3b 4", fault: "ATOM: transaction 0/300 goes from ordinal -1 on to 2"},
		{words: "1 2 3a 4 3b", repeats: []int{1}, fault: "ATOM", against: "1 are missing", order: "ORD"},
		{words: "1 2 3 4 4a", repeats: []int{1}, fault: "has 3 entries, and 2 when it stands there again"},
		{words: "", against: "4 are missing"},
	} {
		t.Run(c.words, func(t *testing.T) {
			t.Parallel()
			source, sink := pg.Database(t), pg.Database(t)
			source.Exec(t, judge.LedgerTable, "INSERT INTO ledger SELECT 1, n, 3 FROM generate_series(1, 4) n")
			write(t, sink, c.words)
			report, err := judge.Log(t.Context(), sink.DSN, "s")
			require.NoError(t, err)
			require.Equal(t, c.repeats, report.Repeats)
			if c.fault == "" {
				require.Empty(t, report.Faults)
			} else {
				require.Contains(t, strings.Join(report.Faults, "; "), c.fault)
			}
			require.Equal(t, c.fault == "" && c.repeats == nil, report.Once() == nil)
			says(t, c.against, report.Against(t.Context(), source.DSN))
			says(t, c.order, judge.Order(t.Context(), sink.DSN, "s"))
		})
	}
}

func says(t *testing.T, what string, err error) {
	t.Helper()
	if what == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, what)
}

func TestAtMost(t *testing.T) {
	sink := pgtest.Shared(t, 17).Database(t)
	write(t, sink, "1 2 3 2 3 4 4")
	report, err := judge.Log(t.Context(), sink.DSN, "s")
	require.NoError(t, err)
	require.Equal(t, 13+8, report.Entries)
	require.Equal(t, 4, report.Transactions)
	require.Equal(t, []int{7}, report.Writers)
	require.NoError(t, report.AtMost(2, 2))
	require.Error(t, report.AtMost(1, 2), "it went back twice")
	require.Error(t, report.AtMost(2, 1), "once by two")
}

// TestChangedCount: the source's own count of a transaction's changes decides.
func TestChangedCount(t *testing.T) {
	sink := pgtest.Shared(t, 17).Database(t)
	write(t, sink, "1")
	sink.Exec(t, `UPDATE testsink.log SET payload = replace(payload, '"changes":"3"', '"changes":"4"')`)
	report, err := judge.Log(t.Context(), sink.DSN, "s")
	require.NoError(t, err)
	require.ErrorContains(t, report.Once(), "has 3 entries, its source wrote 4")
}

func TestEmptyLedgerIsNoVerdict(t *testing.T) {
	pg := pgtest.Shared(t, 17)
	source, sink := pg.Database(t), pg.Database(t)
	source.Exec(t, judge.LedgerTable)
	report, err := judge.Log(t.Context(), sink.DSN, "s") // no log at all
	require.NoError(t, err)
	require.ErrorContains(t, report.Against(t.Context(), source.DSN), "nothing was compared")
}

// TestMirrorIsJudged: every kind of difference is seen, and what is not published is not.
func TestMirrorIsJudged(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		source, mirror := pg.Database(t), pg.Database(t)
		source.Exec(t, "CREATE TABLE a (id int PRIMARY KEY, v text, at timestamptz, f float8, b bytea)",
			`INSERT INTO a VALUES (1, 'x', '2026-01-01 00:00+00', 0.1, '\x00'), (2, NULL, NULL, 'NaN', NULL)`,
			"CREATE TABLE k (v text)", "INSERT INTO k VALUES ('same'), ('same'), (NULL)",
			"CREATE TABLE g (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)", "INSERT INTO g VALUES (1)",
			"CREATE TABLE private (id int)", "INSERT INTO private VALUES (1)",
			"CREATE TABLE nothing (id int)",
			"CREATE PUBLICATION p FOR TABLE a, k, g, nothing")
		mirror.Exec(t, "CREATE TABLE a (b text, id text PRIMARY KEY, v text, at text, f text)",
			`INSERT INTO a VALUES ('\x00', '1', 'x', '2026-01-01 00:00:00+00', '0.1'), (NULL, '2', NULL, NULL, 'NaN')`,
			"CREATE TABLE k (v text)", "INSERT INTO k VALUES ('same'), (NULL), ('same')",
			"CREATE TABLE g (id text PRIMARY KEY)", "INSERT INTO g VALUES ('1')")
		judged := func() judge.MirrorReport {
			r, err := judge.Mirror(t.Context(), source.DSN, mirror.DSN, "p")
			require.NoError(t, err)
			require.Equal(t, 4, r.Tables)
			return r
		}
		require.NoError(t, judged().Err())
		require.Equal(t, 6, judged().Rows)
		for _, c := range []struct{ breaks, says, mends string }{
			{"UPDATE a SET v = '' WHERE id = '2'", "public.a: 0 rows are missing, 0 are foreign, 1 differ in [v]", "UPDATE a SET v = NULL WHERE id = '2'"},
			{"DELETE FROM a WHERE id = '2'", "1 rows are missing, 0 are foreign, 0 differ", "INSERT INTO a VALUES (NULL, '2', NULL, NULL, 'NaN')"},
			{"INSERT INTO a (id) VALUES ('3')", "0 rows are missing, 1 are foreign", "DELETE FROM a WHERE id = '3'"},
			{"INSERT INTO k VALUES ('same')", "public.k: 0 rows are missing, 1 are foreign", "DELETE FROM k WHERE ctid = (SELECT max(ctid) FROM k)"},
			{"DELETE FROM k WHERE v IS NULL", "public.k: 1 rows are missing", "INSERT INTO k VALUES (NULL)"},
			{"ALTER TABLE g RENAME TO g2", "public.g: 1 rows, and no table", "ALTER TABLE g2 RENAME TO g"},
			{"ALTER TABLE k ADD w text", "public.k: columns [v] are ([v w])", "ALTER TABLE k DROP w"},
		} {
			mirror.Exec(t, c.breaks)
			require.ErrorContains(t, judged().Err(), c.says)
			mirror.Exec(t, c.mends)
			require.NoError(t, judged().Err(), c.mends)
		}
		if pg.Major >= 15 {
			source.Exec(t, "ALTER PUBLICATION p SET TABLE a (id, v), k WHERE (v IS NULL), g, nothing")
			require.ErrorContains(t, judged().Err(), "columns [id v] are ([at b f id v])")
			mirror.Exec(t, "ALTER TABLE a DROP b, DROP at, DROP f", "DELETE FROM k WHERE v IS NOT NULL")
			require.NoError(t, judged().Err())
		}
		none, err := judge.Mirror(t.Context(), source.DSN, mirror.DSN, "unknown")
		require.NoError(t, err)
		require.Error(t, none.Err(), "nothing was compared")
	})
}

func TestPositionsAreJudged(t *testing.T) {
	pg := pgtest.Shared(t, 17)
	source := pg.Database(t)
	slot := "j_" + source.Name
	source.Exec(t, "SELECT pg_create_logical_replication_slot('"+slot+"', 'pgoutput')")
	confirmed, err := judge.Confirmed(t.Context(), source.DSN, slot)
	require.NoError(t, err)
	at := func(lsn core.LSN) judge.Durable {
		return func(context.Context) (core.LSN, error) { return lsn, nil }
	}
	_, _, err = judge.Acked(t.Context(), source.DSN, slot, at(confirmed))
	require.NoError(t, err)
	_, _, err = judge.Acked(t.Context(), source.DSN, slot, at(confirmed-1))
	require.ErrorContains(t, err, "ACK")
	_, err = judge.Confirmed(t.Context(), source.DSN, "none")
	require.ErrorContains(t, err, "no such slot")

	settled, err := judge.Settle(t.Context(), source.DSN, slot, confirmed, at(confirmed))
	require.NoError(t, err)
	require.Equal(t, confirmed, settled)
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = judge.Settle(short, source.DSN, slot, confirmed+1, at(confirmed+1))
	require.ErrorIs(t, err, context.DeadlineExceeded)

	falling := confirmed + 100
	watch := judge.StartWatch(source.DSN, slot, time.Millisecond, func(context.Context) (core.LSN, error) {
		falling -= 40
		return falling, nil
	})
	time.Sleep(300 * time.Millisecond)
	samples, breaches := watch.Stop()
	require.Greater(t, samples, 2)
	text := strings.Join(breaches, "\n")
	require.Contains(t, text, "MONO")
	require.Contains(t, text, "ACK")

	_, found, err := judge.ReadStream(t.Context(), source.DSN, "s")
	require.NoError(t, err)
	require.False(t, found)
}

func TestLeftoversAreSeen(t *testing.T) {
	db := pgtest.Shared(t, 17).Database(t)
	left, err := judge.Clean(t.Context(), db.DSN)
	require.NoError(t, err)
	require.Empty(t, left)
	conn := db.Conn(t)
	_, err = conn.Exec(t.Context(), "SET application_name = 'testsink 1'")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "BEGIN")
	require.NoError(t, err)
	left, err = judge.Clean(t.Context(), db.DSN)
	require.NoError(t, err)
	require.Equal(t, []string{"session idle in transaction"}, left)
}
