package main

import (
	"github.com/jackc/pgx/v5"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
	"github.com/replicant-sidecar/replicant-sidecar/sdk/go/mirror"
)

// rows are statements that go to the destination together.
type rows struct {
	tx    *tx
	batch pgx.Batch
}

func (r *rows) add(list ...mirror.Statement) {
	for _, one := range list {
		r.batch.Queue(one.SQL, one.Args...)
	}
}

func (r *rows) send() error {
	if r.batch.Len() == 0 {
		return nil
	}
	return refusal(r.tx.pg.SendBatch(r.tx.ctx, &r.batch).Close())
}

// Apply does changes in their order. Tables are brought into shape before the first row.
func (t *tx) Apply(from *core.Transaction, first uint64) error {
	tables, err := t.tables(from.Changes)
	if err != nil {
		return err
	}
	stored, err := t.store.LoadSnapshot(t)
	if err != nil {
		return err
	}
	all := rows{tx: t}
	for i := range from.Changes {
		c := &from.Changes[i]
		switch c.Op {
		case core.OpMessage:
			all.message(c.Message, from.CommitLSN, first+uint64(i))
		case core.OpTruncate:
			for _, r := range c.Truncate.Relations {
				all.add(tables[r].Truncate())
			}
		default:
			list, err := tables[c.Relation].Change(c, stored.Generation)
			if err != nil {
				return err
			}
			all.add(list...)
		}
	}
	return all.send()
}

// tables are those of the changes, as the destination has them now.
func (t *tx) tables(changes []core.Change) (map[*core.Relation]*mirror.Table, error) {
	tables := map[*core.Relation]*mirror.Table{}
	for i := range changes {
		relations := []*core.Relation{changes[i].Relation}
		switch changes[i].Op {
		case core.OpMessage:
			continue
		case core.OpTruncate:
			relations = changes[i].Truncate.Relations
		}
		for _, r := range relations {
			if tables[r] != nil {
				continue
			}
			table, err := t.table(r)
			if err != nil {
				return nil, err
			}
			tables[r] = table
		}
	}
	return tables, nil
}

const messageSQL = `INSERT INTO _replicant_messages (stream_id, commit_lsn, ordinal, prefix, content)
	VALUES ($1, $2::text::pg_lsn, $3, $4, $5)`

func (r *rows) message(m *core.Message, at core.LSN, ordinal uint64) {
	prefix, content := append([]byte{}, m.Prefix...), append([]byte{}, m.Content...) // empty is not NULL
	r.batch.Queue(messageSQL, r.tx.stream, at.String(), int64(ordinal), prefix, content)
}

// ApplyMessage stores a message that belongs to no transaction, at its own LSN.
func (s *store) ApplyMessage(in sink.StoreTx, m *core.Message) error {
	one := rows{tx: in.(*tx)}
	one.message(m, m.LSN, 0)
	return one.send()
}
