package testsink

import (
	"encoding/hex"
	"os"
	"strconv"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// tx is one transaction of the destination.
type tx struct {
	store   *Store
	session *session // nil once it ended
	stream  string
	step    bool

	open   bool // BEGIN was queued
	begun  bool // something was written, or is about to be
	unit   bool // a unit's work, not a claim or a change of shape
	ddl    bool
	loaded *sink.StreamRow
	// The generation of the stream's latest snapshot run; asked for once.
	generation uint64
	asked      bool
	copied     bool // rows of a snapshot, which are not counted

	runs   []*place // tables with rows that wait
	log    logRun
	counts counts
	args   arguments
}

type counts struct{ inserted, updated, truncated uint64 }

// Counts is what was applied. Deletes are not counted: how many rows were there is known only
// when the group of statements has come back.
func (t *tx) Counts() core.Counts {
	if t.copied {
		return core.Counts{}
	}
	c := &t.counts
	return core.Counts{Inserted: &c.inserted, Updated: &c.updated, Truncated: &c.truncated}
}

// begin queues BEGIN once.
func (t *tx) begin() error {
	if t.open {
		return nil
	}
	t.open = true
	t.args.reset()
	return t.queue("BEGIN")
}

// queue runs a statement with t.args.
func (t *tx) queue(sql string) error {
	if err := t.session.queue(sql, &t.args); err != nil {
		return t.failed(err)
	}
	return nil
}

// sync waits for all that was queued.
func (t *tx) sync() error {
	_, err := t.session.sync()
	if err != nil {
		return t.failed(err)
	}
	return nil
}

// ask runs a statement with t.args and returns its rows. Open runs are written first.
func (t *tx) ask(sql string) ([][][]byte, error) {
	if err := t.begin(); err != nil {
		return nil, err
	}
	got, err := t.session.ask(sql, &t.args)
	if err != nil {
		return nil, t.failed(err)
	}
	return got.rows, nil
}

// failed drops the connection, and with it the transaction: it is certainly not done.
func (t *tx) failed(err error) error {
	t.drop()
	return notDone(err)
}

func (t *tx) drop() {
	if t.session != nil {
		t.session.close()
		t.session = nil
	}
}

const loadSQL = `SELECT system_identifier, database, lineage, epoch, sender, position, resume_state,
(SELECT generation FROM testsink.snapshot WHERE snapshot.stream = stream.stream) FROM testsink.stream WHERE stream = $1 FOR UPDATE`

// Load locks the stream's row before anything else is written.
func (t *tx) Load() (sink.StreamRow, bool, error) {
	if err := t.begin(); err != nil {
		return sink.StreamRow{}, false, err
	}
	if err := t.flush(); err != nil { // of a large transaction, which loads at its end
		return sink.StreamRow{}, false, err
	}
	t.args.reset()
	t.args.text(t.stream)
	rows, err := t.ask(loadSQL)
	if err != nil || len(rows) == 0 {
		return sink.StreamRow{}, false, err
	}
	row, err := t.decode(rows[0])
	if err != nil {
		return row, false, err
	}
	t.loaded = &row
	return row, true, nil
}

func (t *tx) decode(v [][]byte) (row sink.StreamRow, err error) {
	row = sink.StreamRow{Stream: t.stream, SystemIdentifier: string(v[0]), Database: string(v[1])}
	if row.Lineage, err = unhex(v[2]); err != nil {
		return row, err
	}
	if row.Epoch, err = strconv.ParseUint(string(v[3]), 10, 63); err != nil {
		return row, err
	}
	sender, err := unhex(v[4])
	if err != nil {
		return row, err
	}
	copy(row.Sender[:], sender)
	if v[5] != nil {
		if row.Position, err = core.ParseLSN(string(v[5])); err != nil {
			return row, err
		}
	}
	if v[6] != nil {
		if row.ResumeState, err = unhex(v[6]); err != nil {
			return row, err
		}
	}
	t.generation, err = parseGeneration(v[7])
	t.asked = true
	return row, err
}

func unhex(text []byte) ([]byte, error) {
	return hex.DecodeString(strings.TrimPrefix(string(text), `\x`))
}

const (
	insertRow = `INSERT INTO testsink.stream (stream, system_identifier, database, lineage, epoch, sender, position, resume_state)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	updateRow = `UPDATE testsink.stream SET epoch = $2, sender = $3, position = $4, resume_state = $5 WHERE stream = $1`
)

// Save writes the row behind everything that was applied.
func (t *tx) Save(row sink.StreamRow) error {
	if err := t.write(); err != nil {
		return err
	}
	if err := t.flush(); err != nil {
		return err
	}
	if t.loaded != nil && row.Epoch == t.loaded.Epoch && row.Sender == t.loaded.Sender {
		t.unit = true
	}
	t.args.reset()
	if t.loaded == nil {
		t.args.text(row.Stream)
		t.args.text(row.SystemIdentifier)
		t.args.text(row.Database)
		t.args.bytea(row.Lineage)
		t.args.number(int64(row.Epoch))
		t.args.bytea(row.Sender[:])
		t.args.position(row.Position)
		t.args.bytea(row.ResumeState)
		return t.queue(insertRow)
	}
	t.args.text(row.Stream)
	t.args.number(int64(row.Epoch))
	t.args.bytea(row.Sender[:])
	t.args.position(row.Position)
	t.args.bytea(row.ResumeState)
	return t.queue(updateRow)
}

// write is passed before the first thing that a transaction writes: the row is locked
// and the epoch was checked, where it is ours to check.
func (t *tx) write() error {
	if err := t.begin(); err != nil || t.begun {
		return err
	}
	t.begun = true
	return failpoint.Hit(failpoint.SinkBegun)
}

// Commit makes it durable. What fails before the COMMIT itself is certainly not done.
func (t *tx) Commit() error {
	if err := t.begin(); err != nil {
		return err
	}
	if err := t.flush(); err != nil {
		return err
	}
	if failpoint.Enabled && t.unit {
		if err := t.sync(); err != nil {
			return err
		}
		if err := failpoint.Hit(failpoint.SinkCheckpoint); err != nil {
			return err
		}
	}
	before := t.session.waiting
	t.args.reset()
	if err := t.queue("COMMIT"); err != nil {
		return err
	}
	results, err := t.session.sync()
	switch {
	case err != nil && len(results) < before && serverSaid(err):
		return t.failed(err)
	case err != nil:
		t.drop()
		return inDoubt(err)
	case results[len(results)-1].tag.String() != "COMMIT":
		t.drop()
		return errNoCommit
	}
	session := t.session
	t.session = nil
	t.store.give(session, t.ddl)
	if t.unit {
		return failpoint.Hit(failpoint.SinkCommitted)
	}
	return nil
}

// Rollback ends it. The connection stays in use unless it failed.
func (t *tx) Rollback() error {
	if t.session == nil {
		return nil
	}
	if t.open {
		t.args.reset()
		if err := t.queue("ROLLBACK"); err != nil {
			return err
		}
		if err := t.sync(); err != nil {
			return err
		}
	}
	session := t.session
	t.session = nil
	if t.ddl {
		session.forget() // it knows tables that do not exist
	}
	t.store.give(session, false)
	return nil
}

// Apply does a transaction's changes, or a piece of them.
func (t *tx) Apply(from *core.Transaction, first uint64) error {
	if err := t.write(); err != nil {
		return err
	}
	t.unit = true
	for i := range from.Changes {
		if err := t.change(from, first+uint64(i), &from.Changes[i]); err != nil {
			return err
		}
		if !t.step {
			continue
		}
		if err := t.flush(); err != nil {
			return err
		}
		if err := t.sync(); err != nil {
			return err
		}
		if err := failpoint.Hit(failpoint.SinkRow); err != nil {
			return err
		}
	}
	if from.EndLSN == 0 {
		return t.flush() // the rows of a piece are gone with it
	}
	return nil
}

func (t *tx) change(from *core.Transaction, ordinal uint64, c *core.Change) error {
	kind := t.store.config.Kind
	if kind.log() {
		if err := t.entry(from, ordinal, c); err != nil {
			return err
		}
	}
	if c.Op == core.OpMessage {
		return t.message(c.Message, &from.CommitLSN, ordinal)
	}
	switch c.Op {
	case core.OpInsert:
		t.counts.inserted++
	case core.OpUpdate:
		t.counts.updated++
	case core.OpTruncate:
		t.counts.truncated += uint64(len(c.Truncate.Relations))
	}
	if kind.mirror() {
		return t.mirror(c)
	}
	return nil
}

const messageSQL = `INSERT INTO testsink.message (stream, lsn, commit_lsn, ordinal, prefix, content, inserted_by)
VALUES ($1, $2, $3, $4, $5, $6, $7)`

// message stores one message; commit is nil outside of transactions. The log goes first,
// to keep the order of the numbers.
func (t *tx) message(m *core.Message, commit *core.LSN, ordinal uint64) error {
	if err := t.flushLog(); err != nil {
		return err
	}
	t.args.reset()
	t.args.text(t.stream)
	t.args.position(m.LSN)
	if commit == nil {
		t.args.position(0)
		t.args.add(oidInt8, 0, nil)
	} else {
		t.args.position(*commit)
		t.args.number(int64(ordinal))
	}
	t.args.bytea(append([]byte{}, m.Prefix...))
	t.args.bytea(append([]byte{}, m.Content...))
	t.args.number(int64(os.Getpid()))
	return t.queue(messageSQL)
}
