package mirror

import "github.com/replicant-sidecar/replicant-sidecar/core"

// Snapshot is what a unit of a snapshot does to its table: reset, rows, sweep. A unit
// without a relation does nothing to any.
func (t *Table) Snapshot(u *core.SnapshotUnit) ([]Statement, error) {
	var list []Statement
	if u.First {
		list = append(list, t.reset(u.Reset))
	}
	for _, row := range u.Rows {
		copied, err := t.copy(row, u.Generation)
		if err != nil {
			return nil, err
		}
		list = append(list, copied)
	}
	if u.Last && u.Sweep {
		list = append(list, t.sweep(u.Generation))
	}
	return list, nil
}

func (t *Table) reset(which core.SnapshotReset) Statement {
	if which == core.ResetAll {
		return t.Truncate()
	}
	return t.start("DELETE FROM ", t.options.Name, " WHERE ", t.options.Copied).done()
}

func (t *Table) copy(row core.Tuple, generation uint64) (Statement, error) {
	cells, err := t.cells(row)
	if err != nil {
		return Statement{}, err
	}
	if len(t.key) > 0 {
		if _, err := t.keyCells(cells); err != nil {
			return Statement{}, err
		}
	}
	return t.insert(cells, true, generation), nil
}

func (t *Table) sweep(generation uint64) Statement {
	return t.start("DELETE FROM ", t.options.Name, " WHERE ", t.options.Generation, " < ").arg(int64(generation)).done()
}
