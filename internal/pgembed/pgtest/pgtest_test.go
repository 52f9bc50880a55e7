package pgtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, pgtest.NoLeaks()) }

// Every major decodes: a slot, a publication, a change, and the change comes
// out of the slot as pgoutput.
func TestLogicalDecoding(t *testing.T) {
	pgtest.ForEach(t, func(t *testing.T, pg *pgtest.Server) {
		t.Parallel()
		require.Equal(t, pg.Major, pg.Bin().Major)
		db := pg.Database(t)
		conn := db.Conn(t)
		db.Exec(t,
			"CREATE TABLE item (id int PRIMARY KEY, name text)",
			"CREATE PUBLICATION pub FOR TABLE item",
			"SELECT pg_create_logical_replication_slot('s_"+db.Name+"', 'pgoutput')",
			"INSERT INTO item VALUES (1, 'one')",
		)
		rows, err := conn.Query(t.Context(),
			"SELECT chr(get_byte(data, 0)) FROM pg_logical_slot_peek_binary_changes($1, NULL, NULL, 'proto_version', '1', 'publication_names', 'pub')",
			"s_"+db.Name)
		require.NoError(t, err)
		var kinds string
		for rows.Next() {
			var kind string
			require.NoError(t, rows.Scan(&kind))
			kinds += kind
		}
		require.NoError(t, rows.Err())
		require.Equal(t, "BRIC", kinds)
	})
}
