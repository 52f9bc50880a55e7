package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

const problemTooLong = "longer than %d bytes"

// Snapshot reads a HandleSnapshotRequest. Its rows alias the request. The error is a
// *FieldError.
func (d *Decoder) Snapshot(request []byte) (*core.SnapshotUnit, error) {
	err := d.readSnapshot(request)
	if err == errUnusual {
		usual, layoutErr := rewrite(request, &sinkv1.HandleSnapshotRequest{})
		if layoutErr != nil {
			return nil, layoutErr
		}
		err = d.readSnapshot(usual)
	}
	if err != nil {
		return nil, err
	}
	return &d.snapshot, nil
}

func (d *Decoder) readSnapshot(request []byte) *FieldError {
	d.forget()
	var callBody, unitBody []byte
	for f := (fields{rest: request}); f.more(); {
		if !f.next() {
			return broken("message", problemNotProtobuf)
		}
		part := (*[]byte)(nil)
		switch {
		case f.isBytes(fieldContext):
			part = &callBody
		case f.isBytes(fieldSnapshotUnit):
			part = &unitBody
		case f.isNumber(fieldExpected):
			if d.snapshot.Expected = core.LSN(f.number); f.number == 0 {
				return broken("expected_checkpoint", problemZero)
			}
		}
		if part == nil {
			continue
		}
		if *part != nil {
			return errUnusual
		}
		*part = f.body
	}
	if err := readCall(&d.snapshot.Call, callBody); err != nil {
		return err.under("context")
	}
	if unitBody == nil {
		return broken("unit", problemMissing)
	}
	err := d.readSnapshotUnit(unitBody)
	if err == nil || err == errUnusual {
		return err
	}
	return err.under("unit")
}

// readSnapshotUnit fills the unit. The relation may stand behind the rows, so rows are
// read last.
func (d *Decoder) readSnapshotUnit(body []byte) *FieldError {
	u := &d.snapshot
	var parts snapshotParts
	for f := (fields{rest: body}); f.more(); {
		if !f.next() {
			return broken("", problemNotProtobuf)
		}
		if f.kind == protowire.VarintType {
			parts.number(u, &f)
			continue
		}
		switch {
		case f.isBytes(fieldUnitRelation):
			if parts.relation != nil {
				return errUnusual
			}
			parts.relation = f.body
		case f.isBytes(fieldUnitRows):
			d.bodies = append(d.bodies, f.body)
		case f.isBytes(fieldUnitRun):
			parts.run = f.body
		case f.isBytes(fieldUnitToken):
			u.Token = f.body
		}
	}
	if err := d.placeSnapshotTable(&parts); err != nil {
		return err
	}
	return checkSnapshotUnit(u, parts.reset)
}

// snapshotParts is what of a unit is judged once all of it was seen.
type snapshotParts struct {
	relation, run []byte
	reset         int32
}

func (p *snapshotParts) number(u *core.SnapshotUnit, f *fields) {
	switch f.id {
	case fieldUnitLSN:
		u.LSN = core.LSN(f.number)
	case fieldUnitGeneration:
		u.Generation = f.number
	case fieldUnitFirst:
		u.First = f.number != 0
	case fieldUnitReset:
		p.reset = int32(uint32(f.number)) // enums are 32 bits wide
	case fieldUnitLast:
		u.Last = f.number != 0
	case fieldUnitSweep:
		u.Sweep = f.number != 0
	case fieldUnitComplete:
		u.BackfillComplete = f.number != 0
	}
}

func (d *Decoder) placeSnapshotTable(parts *snapshotParts) *FieldError {
	u := &d.snapshot
	if len(parts.run) != len(u.RunID) {
		return broken("run_id", "not %d bytes", len(u.RunID))
	}
	u.RunID = [16]byte(parts.run)
	if parts.relation == nil {
		if len(d.bodies) > 0 {
			return broken("rows", "rows without a relation")
		}
		return nil
	}
	relation, err := d.relations.relation(parts.relation)
	if err != nil {
		return err.under("relation")
	}
	u.Relation = relation
	for i, body := range d.bodies {
		d.rows = append(d.rows, core.Tuple{})
		row := &d.rows[i]
		if err := readRow(row, body, len(relation.Columns)); err != nil {
			return err.underIndex("rows", i)
		}
		if row.Has(core.ValueUnchanged) {
			return broken("kinds", "a row of a snapshot has every column").underIndex("rows", i)
		}
	}
	u.Rows = d.rows
	return nil
}

// checkSnapshotUnit holds the flags against each other.
func checkSnapshotUnit(u *core.SnapshotUnit, reset int32) *FieldError {
	switch {
	case u.Generation == 0:
		return broken("generation", problemMissing)
	case reset < 0 || reset > int32(core.ResetAll):
		return broken("reset", "unknown")
	case u.First && reset == 0:
		return broken("reset", problemMissing)
	case !u.First && reset != 0:
		return broken("reset", "not allowed without first_for_table")
	case (u.First || u.Last) && u.Relation == nil:
		return broken("relation", problemMissing)
	case u.Sweep && !u.Last:
		return broken("sweep", "not allowed without last_for_table")
	case len(u.Token) > core.ProgressTokenMax:
		return broken("progress_token", problemTooLong, core.ProgressTokenMax)
	}
	u.Reset = core.SnapshotReset(reset)
	return nil
}
