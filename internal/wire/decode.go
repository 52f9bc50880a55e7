package wire

import (
	"google.golang.org/protobuf/proto"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// Decoder reads the requests that carry rows. What it returns aliases the request's
// bytes and the decoder's own tables: it is valid until the next call and until the
// bytes are freed. It is not safe for concurrent use.
type Decoder struct {
	relations RelationSource
	decoded
	unit     core.Unit
	snapshot core.SnapshotUnit
	rows     []core.Tuple
}

// RelationSource decodes Relation messages; a *RelationCache.
type RelationSource interface {
	relation(encoded []byte) (*core.Relation, *FieldError)
}

// decoded is what one request, or one frame, was taken apart into.
type decoded struct {
	table        []*core.Relation
	transactions []core.Transaction
	changes      []core.Change
	ends         []int // per transaction, where its changes end
	bodies       [][]byte
}

// NewDecoder makes a decoder that finds relations in the cache.
func NewDecoder(cache *RelationCache) *Decoder { return &Decoder{relations: cache} }

// errUnusual says that a message is valid but not laid out as it usually is, such as
// a sub-message in two pieces. It is rewritten by the generated code then.
var errUnusual = broken("", "unusual layout")

// Batch reads a HandleBatchRequest. The error is a *FieldError.
func (d *Decoder) Batch(request []byte) (*core.Unit, error) {
	return d.read(request, "transactions", func() proto.Message { return &sinkv1.HandleBatchRequest{} })
}

// Transaction reads a HandleTransactionRequest. The error is a *FieldError.
func (d *Decoder) Transaction(request []byte) (*core.Unit, error) {
	return d.read(request, "transaction", func() proto.Message { return &sinkv1.HandleTransactionRequest{} })
}

func (d *Decoder) read(request []byte, name string, generated func() proto.Message) (*core.Unit, error) {
	err := d.request(request, name)
	if err == errUnusual {
		usual, layoutErr := rewrite(request, generated())
		if layoutErr != nil {
			return nil, layoutErr
		}
		err = d.request(usual, name)
	}
	if err != nil {
		return nil, err
	}
	return &d.unit, nil
}

// rewrite lets the generated code read a message and write it again, known fields only.
func rewrite(message []byte, generated proto.Message) ([]byte, *FieldError) {
	if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(message, generated) != nil {
		return nil, broken("message", problemNotProtobuf)
	}
	usual, err := proto.MarshalOptions{Deterministic: true}.Marshal(generated)
	if err != nil {
		return nil, broken("message", problemNotProtobuf)
	}
	return usual, nil
}

// request fills the unit. Relations may stand behind the transactions that refer to
// them, so transactions are read last.
func (d *Decoder) request(request []byte, name string) *FieldError {
	d.forget()
	var callBody []byte
	single := name == "transaction"
	for f := (fields{rest: request}); f.more(); {
		if !f.next() {
			return broken("message", problemNotProtobuf)
		}
		switch {
		case f.isBytes(fieldContext):
			if callBody != nil {
				return errUnusual
			}
			callBody = f.body
		case f.isNumber(fieldExpected):
			if d.unit.Expected = core.LSN(f.number); f.number == 0 {
				return broken("expected_checkpoint", problemZero)
			}
		case f.isNumber(fieldCheckpoint):
			if d.unit.Checkpoint = core.LSN(f.number); f.number == 0 {
				return broken("checkpoint_lsn", problemZero)
			}
		case f.isBytes(fieldRelations):
			if err := d.addRelation(f.body); err != nil {
				return err.underIndex("relations", len(d.table))
			}
		case f.isBytes(fieldTransactions):
			if single && len(d.bodies) > 0 {
				return errUnusual
			}
			d.bodies = append(d.bodies, f.body)
		case f.isBytes(fieldResumeState):
			d.unit.ResumeState = f.body
		}
	}
	if err := readCall(&d.unit.Call, callBody); err != nil {
		return err.under("context")
	}
	return d.readTransactions(name, single)
}

func (d *Decoder) readTransactions(name string, single bool) *FieldError {
	for i, body := range d.bodies {
		d.transactions = append(d.transactions, core.Transaction{Size: len(body)})
		if err := d.transaction(&d.transactions[i], body); err != nil {
			switch {
			case err == errUnusual:
				return err
			case single:
				return err.under(name)
			}
			return err.underIndex(name, i)
		}
		d.ends = append(d.ends, len(d.changes))
	}
	start := 0
	for i, end := range d.ends {
		d.transactions[i].Changes = d.changes[start:end:end]
		start = end
	}
	d.unit.Transactions = d.transactions
	return nil
}

// forget drops the last request, so that nothing of it is kept alive or shown again.
func (d *Decoder) forget() {
	d.unit, d.snapshot = core.Unit{}, core.SnapshotUnit{}
	clear(d.rows)
	d.rows = d.rows[:0]
	clear(d.table)
	clear(d.transactions)
	clear(d.changes)
	clear(d.bodies)
	d.table, d.transactions, d.changes = d.table[:0], d.transactions[:0], d.changes[:0]
	d.ends, d.bodies = d.ends[:0], d.bodies[:0]
}

func (d *Decoder) addRelation(encoded []byte) *FieldError {
	if len(d.table) >= core.RelationsMax {
		return broken("", "more than %d relations", core.RelationsMax)
	}
	relation, err := d.relations.relation(encoded)
	if err != nil {
		return err
	}
	d.table = append(d.table, relation)
	return nil
}

// Release lets go of the last request and what it was taken apart into.
func (d *Decoder) Release() { d.forget() }
