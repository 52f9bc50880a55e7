package wire

import (
	"errors"
	"unicode/utf8"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Reasons why a unit cannot be encoded. Nothing was sent then.
var (
	// ErrTooManyRelations: a request may describe core.RelationsMax relations.
	ErrTooManyRelations = errors.New("unit refers to more relations than a request may describe")
	// ErrTooLarge: the message is above core.ReceiveBytesMax.
	ErrTooLarge = errors.New("message is larger than either side receives")
	// ErrNotUTF8: a name is not valid UTF-8, which a protobuf string has to be.
	ErrNotUTF8 = errors.New("a name is not valid UTF-8")
	// ErrNoRelation: a row change without a relation, or several transactions in a
	// call that takes one. Both are faults of the caller.
	ErrNoRelation       = errors.New("change has no relation")
	ErrManyTransactions = errors.New("HandleTransaction takes at most one transaction")
)

// Field numbers that HandleTransactionRequest and HandleBatchRequest share.
const (
	fieldContext      = 1
	fieldExpected     = 2
	fieldCheckpoint   = 3
	fieldRelations    = 4
	fieldTransactions = 5
	fieldResumeState  = 6
)

// shapesMax bounds how many encoded relations are kept between requests.
const shapesMax = 4096

// Encoder builds the requests that carry rows. It counts first and writes then, and
// keeps the encoded relations and its tables from one request to the next. It is not
// safe for concurrent use.
type Encoder struct {
	table  relationTable
	shapes map[*core.Relation][]byte
	plan   []plannedChange
	bodies []int // size of each transaction's message
}

// plannedChange is what counting found out about one change.
type plannedChange struct {
	body     int
	relation uint32
}

// Batch encodes a HandleBatchRequest into a pooled buffer.
func (e *Encoder) Batch(unit *core.Unit) (*Raw, error) {
	size, err := e.Measure(unit)
	if err != nil {
		return nil, err
	}
	return NewRaw(size, func(dst []byte) []byte { return e.append(dst, unit) }), nil
}

// Transaction encodes a HandleTransactionRequest into a pooled buffer.
func (e *Encoder) Transaction(unit *core.Unit) (*Raw, error) {
	if len(unit.Transactions) > 1 {
		return nil, ErrManyTransactions
	}
	return e.Batch(unit) // the two messages have the same fields
}

// AppendBatchRequest appends a HandleBatchRequest to dst.
func (e *Encoder) AppendBatchRequest(dst []byte, unit *core.Unit) ([]byte, error) {
	if _, err := e.Measure(unit); err != nil {
		return dst, err
	}
	return e.append(dst, unit), nil
}

// AppendTransactionRequest appends a HandleTransactionRequest to dst.
func (e *Encoder) AppendTransactionRequest(dst []byte, unit *core.Unit) ([]byte, error) {
	if len(unit.Transactions) > 1 {
		return dst, ErrManyTransactions
	}
	return e.AppendBatchRequest(dst, unit)
}

// Measure counts the exact size of the request and leaves the plan for append.
func (e *Encoder) Measure(unit *core.Unit) (int, error) {
	e.table.reset()
	if e.shapes == nil || len(e.shapes) > shapesMax {
		e.shapes = make(map[*core.Relation][]byte)
	}
	e.plan, e.bodies = e.plan[:0], e.bodies[:0]
	size := sizeBytes(sizeCall(&unit.Call)) + sizeNumber(uint64(unit.Expected)) +
		sizeNumber(uint64(unit.Checkpoint)) + sizeOptionalBytes(unit.ResumeState)
	for i := range unit.Transactions {
		body, err := e.measureTransaction(&unit.Transactions[i])
		if err != nil {
			return 0, err
		}
		e.bodies = append(e.bodies, body)
		size += sizeBytes(body)
	}
	for _, relation := range e.table.list {
		shape, err := e.shape(relation)
		if err != nil {
			return 0, err
		}
		size += sizeBytes(len(shape))
	}
	return size, nil
}

func (e *Encoder) measureTransaction(t *core.Transaction) (int, error) {
	if !utf8.ValidString(t.Origin) {
		return 0, ErrNotUTF8
	}
	body := sizeNumber(uint64(t.XID)) + sizeNumber(uint64(t.CommitLSN)) +
		sizeNumber(uint64(t.EndLSN)) + sizeTime(t.CommitTime) + sizeBytesSet(len(t.Origin))
	for i := range t.Changes {
		planned, err := e.table.measureChange(&t.Changes[i])
		if err != nil {
			return 0, err
		}
		e.plan = append(e.plan, planned)
		body += sizeBytes(planned.body)
	}
	return body, nil
}

// append writes what Measure planned for the same unit.
func (e *Encoder) append(dst []byte, unit *core.Unit) []byte {
	dst = appendHead(dst, fieldContext, sizeCall(&unit.Call))
	dst = appendCall(dst, &unit.Call)
	dst = appendNumber(dst, fieldExpected, uint64(unit.Expected))
	dst = appendNumber(dst, fieldCheckpoint, uint64(unit.Checkpoint))
	for _, relation := range e.table.list {
		shape := e.shapes[relation]
		dst = append(appendHead(dst, fieldRelations, len(shape)), shape...)
	}
	next := 0
	for i := range unit.Transactions {
		t := &unit.Transactions[i]
		dst = appendHead(dst, fieldTransactions, e.bodies[i])
		dst = e.appendTransaction(dst, t, e.plan[next:next+len(t.Changes)])
		next += len(t.Changes)
	}
	return appendOptionalBytes(dst, fieldResumeState, unit.ResumeState)
}

func (e *Encoder) appendTransaction(dst []byte, t *core.Transaction, plan []plannedChange) []byte {
	dst = appendNumber(dst, 1, uint64(t.XID))
	dst = appendNumber(dst, 2, uint64(t.CommitLSN))
	dst = appendNumber(dst, 3, uint64(t.EndLSN))
	dst = appendTime(dst, 4, t.CommitTime)
	dst = appendStringSet(dst, 5, t.Origin)
	for i := range t.Changes {
		dst = appendHead(dst, 6, plan[i].body)
		dst = e.table.appendChange(dst, &t.Changes[i], plan[i])
	}
	return dst
}

// shape is the encoded Relation message, made once per relation.
func (e *Encoder) shape(relation *core.Relation) ([]byte, error) {
	if shape, ok := e.shapes[relation]; ok {
		return shape, nil
	}
	shape, err := encodeRelation(relation)
	if err != nil {
		return nil, err
	}
	e.shapes[relation] = shape
	return shape, nil
}
