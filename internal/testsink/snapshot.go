package testsink

import (
	"os"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// LoadSnapshot reads what is kept of the stream's snapshots.
func (s *Store) LoadSnapshot(in sink.StoreTx) (sink.SnapshotRow, error) {
	t := in.(*tx)
	row := sink.SnapshotRow{Stream: t.stream}
	if err := t.begin(); err != nil { // it uses the arguments
		return row, err
	}
	t.args.reset()
	t.args.text(t.stream)
	rows, err := t.ask(`SELECT generation, token FROM testsink.snapshot WHERE stream = $1`)
	if err != nil {
		return row, err
	}
	if len(rows) == 0 {
		t.asked = true
		return row, nil
	}
	if row.Generation, err = parseGeneration(rows[0][0]); err != nil {
		return row, err
	}
	t.generation, t.asked = row.Generation, true
	if rows[0][1] != nil {
		row.Token, err = unhex(rows[0][1])
	}
	return row, err
}

// SaveSnapshot stores it.
func (s *Store) SaveSnapshot(in sink.StoreTx, row sink.SnapshotRow) error {
	t := in.(*tx)
	if err := t.write(); err != nil {
		return err
	}
	t.generation, t.asked = row.Generation, true
	t.args.reset()
	t.args.text(row.Stream)
	t.args.number(int64(row.Generation))
	t.args.bytea(row.Token)
	return t.queue(`INSERT INTO testsink.snapshot (stream, generation, token) VALUES ($1, $2, $3)
ON CONFLICT (stream) DO UPDATE SET generation = EXCLUDED.generation, token = EXCLUDED.token`)
}

// ApplySnapshot does what a unit says of its table, and notes the unit.
func (s *Store) ApplySnapshot(in sink.StoreTx, unit *core.SnapshotUnit) error {
	t := in.(*tx)
	if err := t.write(); err != nil {
		return err
	}
	t.unit, t.copied = true, true
	if err := t.noteChunk(unit); err != nil {
		return err
	}
	if unit.Relation == nil {
		return nil
	}
	var g *target
	if s.config.Kind.mirror() {
		var err error
		if g, err = t.target(unit.Relation); err != nil {
			return err
		}
		if err := t.clear(g, unit); err != nil {
			return err
		}
	}
	for i := range unit.Rows {
		if err := t.copyRow(g, unit, i); err != nil {
			return err
		}
	}
	if g == nil || !unit.Last || !unit.Sweep {
		return nil
	}
	if err := t.flushPlace(g.place); err != nil {
		return err
	}
	t.args.reset()
	t.args.number(int64(unit.Generation))
	return t.queue(`DELETE FROM ` + g.table + ` WHERE ` + markGeneration + ` < $1`)
}

// clear removes what the first unit of a table says.
func (t *tx) clear(g *target, unit *core.SnapshotUnit) error {
	if !unit.First {
		return nil
	}
	if err := t.flushPlace(g.place); err != nil {
		return err
	}
	t.args.reset()
	if unit.Reset == core.ResetAll {
		return t.queue(`DELETE FROM ` + g.table)
	}
	return t.queue(`DELETE FROM ` + g.table + ` WHERE ` + markOrigin)
}

// copyRow writes one row; g is nil for a sink that only keeps the log.
func (t *tx) copyRow(g *target, unit *core.SnapshotUnit, i int) error {
	if t.store.config.Kind.log() {
		if err := t.snapshotEntry(unit, i); err != nil {
			return err
		}
	}
	if g != nil {
		if err := t.put(g, runCopy, unit.Rows[i]); err != nil {
			return err
		}
	}
	if !t.step {
		return nil
	}
	if err := t.flush(); err != nil {
		return err
	}
	if err := t.sync(); err != nil {
		return err
	}
	return failpoint.Hit(failpoint.SinkRow)
}

const noteSQL = `INSERT INTO testsink.chunk (stream, run, generation, relation, lsn, first, reset, last, sweep, rows, token_bytes, complete, inserted_by)
VALUES ($1, $2, $3, $4, $5, $6::bigint <> 0, $7::bigint, $8::bigint <> 0, $9::bigint <> 0, $10, $11::bigint, $12::bigint <> 0, $13::bigint)`

// noteChunk writes down the unit itself, which may have no row.
func (t *tx) noteChunk(unit *core.SnapshotUnit) error {
	flag := func(set bool) {
		n := int64(0)
		if set {
			n = 1
		}
		t.args.number(n)
	}
	t.args.reset()
	t.args.text(t.stream)
	t.args.bytea(unit.RunID[:])
	t.args.number(int64(unit.Generation))
	if unit.Relation == nil {
		t.args.add(oidText, 0, nil)
	} else {
		t.args.text(unit.Relation.String())
	}
	t.args.position(unit.LSN)
	flag(unit.First)
	t.args.number(int64(unit.Reset))
	flag(unit.Last)
	flag(unit.Sweep)
	t.args.number(int64(len(unit.Rows)))
	if unit.Token == nil {
		t.args.add(oidInt8, 0, nil)
	} else {
		t.args.number(int64(len(unit.Token)))
	}
	flag(unit.BackfillComplete)
	t.args.number(int64(os.Getpid()))
	return t.queue(noteSQL)
}

// CompleteSnapshot notes the end of an initial copy.
func (s *Store) CompleteSnapshot(in sink.StoreTx, unit *core.SnapshotCompleteUnit) error {
	t := in.(*tx)
	if err := t.write(); err != nil {
		return err
	}
	t.unit, t.copied = true, true
	var relations array
	relations.start(oidText)
	for _, r := range unit.Relations {
		relations.string(r.String())
	}
	t.args.reset()
	t.args.text(t.stream)
	t.args.bytea(unit.RunID[:])
	t.args.number(int64(unit.Generation))
	t.args.position(unit.Checkpoint)
	t.args.array(&relations)
	t.args.number(int64(os.Getpid()))
	return t.queue(`INSERT INTO testsink.completion (stream, run, generation, position, relations, inserted_by)
VALUES ($1, $2, $3, $4, $5, $6)`)
}
