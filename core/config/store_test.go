package config

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckpointStore(t *testing.T) {
	got, err := load(t, "", nil, nil)
	require.NoError(t, err)
	require.False(t, got.CheckpointStore.Used())
	for _, file := range []string{
		"checkpoint_store: {postgres: {dsn: 'postgres://u:s3cret@h/db', table: 'Any \"name\".x'}, batch: {max_transactions: 100, max_delay: 1s}, wait: 1m}\naccept_unfenced: true\nmessages: true\ndelivery: {mode: transaction, max_span: 1MiB}\n",
		"checkpoint_store: {file: {dir: /var/lib/replicant}}\n",
		"checkpoint_store:\n", // all below it is commented out
	} {
		got, err := load(t, file, nil, nil)
		require.NoError(t, err, file)
		require.Equal(t, len(file) > 40, got.CheckpointStore.Used())
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", got.Config, got.Redacted(), got.CheckpointStore), "s3cret")
		require.NotContains(t, got.Redacted().CheckpointStore.Postgres.DSN.Reveal(), "s3cret")
	}
}

// TestCheckpointStoreExclusions: two settings that exclude each other, or one that would
// have no effect, are faults, all of them at once.
func TestCheckpointStoreExclusions(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		env  []string
		want []string
	}{
		"two places, and a batch of the sink's": {
			"checkpoint_store: {postgres: {dsn: 'host=h dbname=d'}, file: {dir: /x}}\ndelivery: {mode: batch, max_transactions: 5, max_delay: 1s}\n", nil,
			[]string{"checkpoint_store.file.dir", "delivery.mode", "delivery.max_transactions", "delivery.max_delay"},
		},
		"no place": {
			"checkpoint_store: {postgres: {table: t}, batch: {max_transactions: 5, max_delay: 1s}, wait: 1s}\naccept_unfenced: true\n", nil,
			[]string{"checkpoint_store.postgres.table", "checkpoint_store.batch.max_transactions", "checkpoint_store.batch.max_delay", "checkpoint_store.wait", "accept_unfenced"},
		},
		"values": {
			"checkpoint_store: {postgres: {dsn: nonsense, table: ''}, batch: {max_transactions: 0, max_delay: 2m}, wait: 0s}\n", nil,
			[]string{"checkpoint_store.postgres.dsn", "checkpoint_store.postgres.table", "checkpoint_store.batch.max_transactions", "checkpoint_store.batch.max_delay", "checkpoint_store.wait"},
		},
		"a delay of nothing": {
			"checkpoint_store: {file: {dir: /x}, batch: {max_delay: 1s}}\n", nil, []string{"checkpoint_store.batch.max_delay"},
		},
		"expanded from nothing": {
			"", []string{"REPLICANT_CHECKPOINT_STORE_POSTGRES_DSN=", "REPLICANT_CHECKPOINT_STORE_FILE_DIR="},
			[]string{"checkpoint_store.postgres.dsn", "checkpoint_store.file.dir"},
		},
		"two beginnings": {
			"snapshot: initial\ngo_forward_only: true\nadopt_slot: true\n", nil, []string{"go_forward_only", "adopt_slot"},
		},
		"a beginning beside the stream, and batches of one": {
			"snapshot: incremental\nadopt_slot: true\ndelivery: {mode: transaction, max_transactions: 5, max_delay: 1s}\n", nil,
			[]string{"adopt_slot", "delivery.max_transactions", "delivery.max_delay"},
		},
		"batches, and defaults spelt out": {
			"snapshot: none\ngo_forward_only: true\ndelivery: {mode: transaction, max_transactions: 1000, max_delay: 0s}\n", nil, nil,
		},
		"a typing error below": {"checkpoint_store: {postgres: {dns: x}}\nbatch: {max_transactions: 5}\n", nil, []string{"", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.file, c.env, nil)
			var keys []string
			for _, f := range Faults(err) {
				keys = append(keys, f.Key)
				require.NotEmpty(t, f.Place)
			}
			require.ElementsMatch(t, c.want, keys, "%v", err)
		})
	}
}
