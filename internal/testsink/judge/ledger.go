package judge

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
)

// The ledger is a published table that a source's writer keeps: every transaction
// inserts one row of it, so that the source itself says which transactions there are and
// how many changes each has. An aborted transaction leaves no row.
const (
	LedgerRelation = "public.ledger"
	// LedgerTable makes it. Numbers of a shard rise by one from 1; changes counts the
	// changes that are streamed, the ledger's own row included.
	LedgerTable = `CREATE TABLE public.ledger (shard int, tx bigint, changes int NOT NULL, PRIMARY KEY (shard, tx))`
)

// Mark is one row of the ledger.
type Mark struct {
	Shard   int
	Tx      int64
	Changes int
}

// UnmarshalJSON reads the row as the log has it: text.
func (m *Mark) UnmarshalJSON(text []byte) error {
	var row struct{ Shard, Tx, Changes string }
	if err := json.Unmarshal(text, &row); err != nil {
		return err
	}
	var err error
	if m.Shard, err = strconv.Atoi(row.Shard); err != nil {
		return err
	}
	if m.Tx, err = strconv.ParseInt(row.Tx, 10, 64); err != nil {
		return err
	}
	m.Changes, err = strconv.Atoi(row.Changes)
	return err
}

// Against holds the log against the source's ledger: nothing missing, nothing foreign,
// nothing under two commits. The source must be at rest, and the sink settled.
func (r *LogReport) Against(ctx context.Context, source string) error {
	missing, at := 0, map[Mark]bool{}
	err := once(ctx, source, `SELECT shard, tx, changes FROM `+LedgerRelation, func(v [][]byte) error {
		var m Mark
		text := fmt.Sprintf(`{"shard":"%s","tx":"%s","changes":"%s"}`, v[0], v[1], v[2])
		if err := m.UnmarshalJSON([]byte(text)); err != nil {
			return err
		}
		at[m] = true
		if r.ledger[m] == 0 {
			missing++
		}
		return nil
	})
	if err != nil {
		return err
	}
	foreign, twice := 0, 0
	for m, n := range r.ledger {
		if !at[m] {
			foreign++
		}
		if n > 1 {
			twice++
		}
	}
	switch {
	case len(at) == 0:
		return &Breach{"LOSS: the source's ledger is empty, nothing was compared"}
	case missing+foreign+twice > 0:
		return &Breach{fmt.Sprintf("LOSS: of %d transactions %d are missing; %d are foreign, %d stand under two commits", len(at), missing, foreign, twice)}
	}
	return nil
}

// Order is nil when every shard's transactions stand in the log in their order.
func Order(ctx context.Context, sink, stream string) error {
	shards := map[int]int64{}
	var faults int
	err := once(ctx, sink, `SELECT payload::jsonb->'new'->>'shard', payload::jsonb->'new'->>'tx' FROM
(SELECT DISTINCT ON (commit_lsn) seq, payload FROM testsink.log WHERE stream = $1 AND op = 'insert' AND relation = $2 ORDER BY commit_lsn, seq) first
ORDER BY seq`, func(v [][]byte) error {
		shard, err := strconv.Atoi(string(v[0]))
		if err != nil {
			return err
		}
		tx, err := strconv.ParseInt(string(v[1]), 10, 64)
		if err != nil {
			return err
		}
		if tx != shards[shard]+1 {
			faults++
		}
		shards[shard] = tx
		return nil
	}, stream, LedgerRelation)
	if err == nil && faults > 0 {
		err = &Breach{fmt.Sprintf("ORD: %d transactions do not follow the one before them", faults)}
	}
	return err
}
