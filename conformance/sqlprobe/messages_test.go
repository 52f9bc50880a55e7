package sqlprobe_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/sqlprobe"
)

// Messages of one stream, in the order in which they were stored.
func TestMessages(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sink.db")
	db, err := sql.Open("sqlite", "file:"+file)
	require.NoError(t, err)
	defer db.Close()
	run := func(query string) {
		_, err := db.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
	run("CREATE TABLE other (a)")
	probe, err := sqlprobe.New(sqlprobe.Options{DSN: "sqlite:" + file})
	require.NoError(t, err)
	_, err = probe.ReadLog(t.Context(), "s")
	require.ErrorIs(t, err, conformance.ErrNoLog)
	run("CREATE TABLE _replicant_messages (stream_id TEXT, commit_lsn TEXT, ordinal INTEGER, prefix BLOB, content BLOB)")
	run("INSERT INTO _replicant_messages VALUES ('s', '18446744073709551615', 0, x'ff', x''), ('o', '1', 0, '', ''), ('s', '7', 2, x'00', x'61')")
	log, err := probe.ReadLog(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, []conformance.LogEntry{
		{CommitLSN: 1<<64 - 1, Op: "message", Prefix: []byte{0xff}},
		{CommitLSN: 7, Ordinal: 2, Op: "message", Prefix: []byte{0}, Content: []byte("a")},
	}, log)
}
