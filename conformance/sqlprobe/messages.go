package sqlprobe

import (
	"context"
	"strconv"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// messages is where the example sinks keep messages: stream_id, commit_lsn, ordinal, prefix
// and content, in SQLite in the order of rowid.
const messages = "_replicant_messages"

// ReadLog reads the messages that a stream has stored. There is no other log to read: logs
// have no shape that could be guessed.
func (p *Probe) ReadLog(ctx context.Context, stream string) ([]conformance.LogEntry, error) {
	db, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	columns, err := p.dialect.columns(ctx, db, "", messages)
	if err != nil {
		return nil, err
	}
	if len(columns) == 0 {
		return nil, conformance.ErrNoLog
	}
	rows, err := db.QueryContext(ctx, p.dialect.messages, stream)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var list []conformance.LogEntry
	for rows.Next() {
		e := conformance.LogEntry{Op: "message"}
		var lsn string
		if err := rows.Scan(&lsn, &e.Ordinal, &e.Prefix, &e.Content); err != nil {
			return nil, err
		}
		if e.CommitLSN, err = parseLSN(lsn); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, rows.Err()
}

// parseLSN reads a decimal number, or the form that Postgres prints.
func parseLSN(text string) (uint64, error) {
	high, low, parted := strings.Cut(text, "/")
	if !parted {
		return strconv.ParseUint(text, 10, 64)
	}
	h, err := strconv.ParseUint(high, 16, 32)
	if err != nil {
		return 0, err
	}
	l, err := strconv.ParseUint(low, 16, 32)
	return h<<32 | l, err
}
