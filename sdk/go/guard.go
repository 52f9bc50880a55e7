package sink

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// The rules of a sink that keeps the checkpoint, as pure functions of the stored row and
// the request. They hold only together with the store transaction around them: the row
// is locked while it is decided on, and what is decided is stored with the data.

// refuse is a refusal in our own words.
func refuse(reason core.Reason, text string) error { return &core.Refusal{Reason: reason, Text: text} }

// decideClaim answers Checkpoint. Without a claim it only reads; a row that is not there
// stays so. With one it says what row to store; save is false for a repeated claim.
func decideClaim(row StreamRow, found bool, q core.CheckpointRequest, newLineage func() []byte) (next StreamRow, save bool, err error) {
	if found && (row.SystemIdentifier != q.Source.SystemIdentifier || row.Database != q.Source.Database) {
		return row, false, refuse(core.ReasonSourceMismatch, "the stream is bound to another system or database")
	}
	if q.Claim == nil {
		return row, false, nil
	}
	switch {
	case !found:
		return StreamRow{
			Stream: q.StreamID, SystemIdentifier: q.Source.SystemIdentifier, Database: q.Source.Database,
			Lineage: newLineage(), Epoch: q.Claim.Epoch, Sender: q.Claim.SenderID,
		}, true, nil
	case q.Claim.Epoch > row.Epoch:
		row.Epoch, row.Sender = q.Claim.Epoch, q.Claim.SenderID
		return row, true, nil
	case q.Claim.Epoch == row.Epoch && q.Claim.SenderID == row.Sender:
		return row, false, nil
	}
	return row, false, refuse(core.ReasonFenced, "another claim came first")
}

// decideCall says whether a writing call may write at all: its epoch is the stored one,
// and the sidecar knows no position that this store does not have. A row that is not
// there holds neither epoch nor position.
func decideCall(row StreamRow, found bool, call *core.Call, expected core.LSN) error {
	switch {
	case !found:
		return refuse(core.ReasonCheckpointBehind, "the stream is not known here")
	case call.Epoch < row.Epoch:
		return refuse(core.ReasonFenced, "a higher epoch rules")
	case call.Epoch > row.Epoch:
		return refuse(core.ReasonCheckpointBehind, "the claim of this epoch is not stored here")
	case expected > row.Position: // also a position expected where none is stored
		return refuse(core.ReasonCheckpointBehind, "the stored position is below the expected one")
	}
	return nil
}

// unitPlan is what to do with a unit that may be written.
type unitPlan struct {
	// apply are the transactions that the store does not have yet, in order.
	apply    []*core.Transaction
	replayed uint64
	// row is the row to store, if anything of it moves.
	row  StreamRow
	save bool
}

// decideUnit decides on a whole unit: who may write, what is skipped because it ends at
// or before the position, and the row that results. Idle steps have no case of their own.
func decideUnit(row StreamRow, found bool, unit *core.Unit) (unitPlan, error) {
	if err := decideCall(row, found, &unit.Call, unit.Expected); err != nil {
		return unitPlan{}, err
	}
	var plan unitPlan
	for i := range unit.Transactions {
		if covered(row, unit.Transactions[i].EndLSN) {
			plan.replayed++
			continue
		}
		plan.apply = append(plan.apply, &unit.Transactions[i])
	}
	plan.row, plan.save = advance(row, unit.Checkpoint, unit.ResumeState)
	return plan, nil
}

// covered reports whether what ends there is in the store already. The start of a
// commit record is never what is compared.
func covered(row StreamRow, end core.LSN) bool { return end <= row.Position }

// advance moves the row to a position, never back. The state belongs to its position,
// so that of a replay from below is not stored over a later one.
func advance(row StreamRow, to core.LSN, state []byte) (next StreamRow, save bool) {
	if to < row.Position {
		return row, false
	}
	save = to > row.Position || state != nil
	row.Position = to
	if state != nil {
		row.ResumeState = state
	}
	return row, save
}
