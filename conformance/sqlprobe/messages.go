package sqlprobe

import (
	"context"
	"strconv"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// messages is where the example sinks keep messages in SQLite, in the order of rowid.
const messages = "_replicant_messages"

// ReadLog reads the messages that a stream has stored in a SQLite file. There is no other
// log to read: logs have no shape that could be guessed.
func (p *Probe) ReadLog(ctx context.Context, stream string) ([]conformance.LogEntry, error) {
	if !p.dialect.flat {
		return nil, conformance.ErrNoLog
	}
	db, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	var n int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = ?", messages).Scan(&n); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, conformance.ErrNoLog
	}
	rows, err := db.QueryContext(ctx, "SELECT commit_lsn, ordinal, prefix, content FROM "+messages+" WHERE stream_id = ? ORDER BY rowid", stream)
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
		if e.CommitLSN, err = strconv.ParseUint(lsn, 10, 64); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, rows.Err()
}
