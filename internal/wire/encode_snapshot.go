package wire

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Field numbers of HandleSnapshotRequest and of its SnapshotUnit.
const (
	fieldSnapshotUnit = 4

	fieldUnitRelation   = 1
	fieldUnitRows       = 2
	fieldUnitLSN        = 3
	fieldUnitRun        = 4
	fieldUnitGeneration = 5
	fieldUnitFirst      = 6
	fieldUnitReset      = 7
	fieldUnitLast       = 8
	fieldUnitSweep      = 9
	fieldUnitToken      = 10
	fieldUnitComplete   = 11
)

// Snapshot encodes a HandleSnapshotRequest into a pooled buffer.
func (e *Encoder) Snapshot(unit *core.SnapshotUnit) (*Raw, error) {
	body, err := e.measureSnapshot(unit)
	if err != nil {
		return nil, err
	}
	size := sizeBytes(sizeCall(&unit.Call)) + sizeNumber(uint64(unit.Expected)) + sizeBytes(body)
	return NewRaw(size, func(dst []byte) []byte { return e.appendSnapshot(dst, unit, body) }), nil
}

// measureSnapshot counts the SnapshotUnit message.
func (e *Encoder) measureSnapshot(unit *core.SnapshotUnit) (int, error) {
	if e.shapes == nil || len(e.shapes) > shapesMax {
		e.shapes = make(map[*core.Relation][]byte)
	}
	body := sizeNumber(uint64(unit.LSN)) + sizeBytes(len(unit.RunID)) + sizeNumber(unit.Generation) +
		sizeNumber(boolNumber(unit.First)) + sizeNumber(uint64(unit.Reset)) +
		sizeNumber(boolNumber(unit.Last)) + sizeNumber(boolNumber(unit.Sweep)) +
		sizeOptionalBytes(unit.Token) + sizeNumber(boolNumber(unit.BackfillComplete))
	if unit.Relation == nil {
		if len(unit.Rows) > 0 {
			return 0, ErrNoRelation
		}
		return body, nil
	}
	shape, err := e.shape(unit.Relation)
	if err != nil {
		return 0, err
	}
	body += sizeBytes(len(shape))
	for i := range unit.Rows {
		body += sizeBytes(len(unit.Rows[i].Packed()))
	}
	return body, nil
}

// appendSnapshot writes what measureSnapshot counted for the same unit.
func (e *Encoder) appendSnapshot(dst []byte, unit *core.SnapshotUnit, body int) []byte {
	dst = appendHead(dst, fieldContext, sizeCall(&unit.Call))
	dst = appendCall(dst, &unit.Call)
	dst = appendNumber(dst, fieldExpected, uint64(unit.Expected))
	dst = appendHead(dst, fieldSnapshotUnit, body)
	if unit.Relation != nil {
		shape := e.shapes[unit.Relation]
		dst = append(appendHead(dst, fieldUnitRelation, len(shape)), shape...)
	}
	for i := range unit.Rows {
		row := unit.Rows[i].Packed()
		dst = append(appendHead(dst, fieldUnitRows, len(row)), row...)
	}
	dst = appendNumber(dst, fieldUnitLSN, uint64(unit.LSN))
	dst = append(appendHead(dst, fieldUnitRun, len(unit.RunID)), unit.RunID[:]...)
	dst = appendNumber(dst, fieldUnitGeneration, unit.Generation)
	dst = appendNumber(dst, fieldUnitFirst, boolNumber(unit.First))
	dst = appendNumber(dst, fieldUnitReset, uint64(unit.Reset))
	dst = appendNumber(dst, fieldUnitLast, boolNumber(unit.Last))
	dst = appendNumber(dst, fieldUnitSweep, boolNumber(unit.Sweep))
	dst = appendOptionalBytes(dst, fieldUnitToken, unit.Token)
	return appendNumber(dst, fieldUnitComplete, boolNumber(unit.BackfillComplete))
}
