package testsink_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/sqlprobe"
	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// logProbe reads the mirror's tables by SQL, and what the sink keeps in tables of its own:
// messages, or the log.
type logProbe struct {
	*sqlprobe.Probe
	dsn string
}

func newLogProbe(t *testing.T, dsn string) logProbe {
	t.Helper()
	probe, err := sqlprobe.New(sqlprobe.Options{DSN: dsn, Hidden: []string{"testsink.snapshot", "testsink.generation"}})
	require.NoError(t, err)
	return logProbe{probe, dsn}
}

// A message of a log stands in both tables.
const entriesSQL = `SELECT seq, commit_lsn::text, ordinal, op, coalesce(relation, ''), payload, run
FROM testsink.log WHERE stream = $1 AND op <> 'message'
UNION ALL SELECT seq, coalesce(commit_lsn, lsn)::text, coalesce(ordinal, 0), 'message', '',
'{"prefix":"' || encode(prefix, 'hex') || '","content":"' || encode(content, 'hex') || '"}', NULL
FROM testsink.message WHERE stream = $1 ORDER BY seq`

// ReadLog gives what the stream has in both tables.
func (p logProbe) ReadLog(ctx context.Context, stream string) ([]conformance.LogEntry, error) {
	conn, err := pgx.Connect(ctx, p.dsn)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, entriesSQL, stream)
	if err != nil {
		return nil, err
	}
	var all []conformance.LogEntry
	var seq, ordinal int64
	var lsn, op, relation, payload string
	var run []byte
	_, err = pgx.ForEachRow(rows, []any{&seq, &lsn, &ordinal, &op, &relation, &payload, &run}, func() error {
		at, err := core.ParseLSN(lsn)
		if err != nil {
			return err
		}
		entry := conformance.LogEntry{CommitLSN: uint64(at), Ordinal: uint64(ordinal), Op: op, RunID: append([]byte(nil), run...)}
		several, err := entries(entry, relation, payload)
		all = append(all, several...)
		return err
	})
	return all, err
}

// entries fills an entry from its payload; a truncate of several tables makes several.
func entries(e conformance.LogEntry, relation, text string) ([]conformance.LogEntry, error) {
	var payload struct {
		New, Old        map[string]*string
		Unchanged       []string
		Relations       []string
		Prefix, Content string
	}
	if err := json.Unmarshal([]byte(text), &payload); err != nil {
		return nil, err
	}
	if e.Op == "truncate" {
		var all []conformance.LogEntry
		for _, name := range payload.Relations {
			e.Schema, e.Table, _ = strings.Cut(name, ".")
			all = append(all, e)
		}
		return all, nil
	}
	e.Schema, e.Table, _ = strings.Cut(relation, ".")
	if e.Op == "message" {
		prefix, err := hex.DecodeString(payload.Prefix)
		if err != nil {
			return nil, err
		}
		e.Prefix = prefix
		e.Content, err = hex.DecodeString(payload.Content)
		return []conformance.LogEntry{e}, err
	}
	if e.Op == "snapshot" {
		e.CommitLSN, e.Ordinal = 0, 0 // where the copy was read, which is no position
	}
	row := payload.New
	if row == nil {
		row = payload.Old
	}
	add := func(name string, kind byte, v conformance.Value) {
		e.Columns, e.Kinds, e.Values = append(e.Columns, name), e.Kinds+string(rune(kind)), append(e.Values, v)
	}
	for name, value := range row {
		if value == nil {
			add(name, 'n', conformance.Value{Null: true})
		} else {
			add(name, 't', conformance.Value{Text: []byte(*value)})
		}
	}
	for _, name := range payload.Unchanged {
		add(name, 'u', conformance.Value{})
	}
	return []conformance.LogEntry{e}, nil
}
