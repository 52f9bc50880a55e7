package main

import (
	"github.com/jackc/pgx/v5"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// LoadSnapshot reads the stream's snapshot row.
func (s *store) LoadSnapshot(in sink.StoreTx) (sink.SnapshotRow, error) {
	t, generation := in.(*tx), int64(0)
	row := sink.SnapshotRow{Stream: t.stream}
	err := t.pg.QueryRow(t.ctx, "SELECT generation, token FROM _replicant_snapshots WHERE stream_id = $1", t.stream).
		Scan(&generation, &row.Token)
	if err == pgx.ErrNoRows {
		return row, nil
	}
	row.Generation = uint64(generation)
	return row, refusal(err)
}

// SaveSnapshot stores it.
func (s *store) SaveSnapshot(in sink.StoreTx, row sink.SnapshotRow) error {
	return in.(*tx).exec(`INSERT INTO _replicant_snapshots VALUES ($1, $2, $3)
		ON CONFLICT (stream_id) DO UPDATE SET generation = excluded.generation, token = excluded.token`,
		row.Stream, int64(row.Generation), row.Token)
}

// ApplySnapshot does one unit of a snapshot.
func (s *store) ApplySnapshot(in sink.StoreTx, unit *core.SnapshotUnit) error {
	if unit.Relation == nil {
		return nil
	}
	t := in.(*tx)
	table, err := t.table(unit.Relation)
	if err != nil {
		return err
	}
	list, err := table.Snapshot(unit)
	if err != nil {
		return err
	}
	all := rows{tx: t}
	all.add(list...)
	return all.send()
}

// CompleteSnapshot has nothing to do: a mirror is read while it is filled.
func (s *store) CompleteSnapshot(sink.StoreTx, *core.SnapshotCompleteUnit) error { return nil }
