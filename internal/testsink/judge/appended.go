package judge

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// AppendedReport is what copies and inserts of the stream make together, in the log of a
// source that only ever inserted.
type AppendedReport struct {
	Tables, Rows int
	// Copied and Streamed are entries, of the last attempt at each table and of the stream.
	Copied, Streamed int
	Differences      []string
}

// Err is nil when each row of the source stands in the log exactly once.
func (r AppendedReport) Err() error {
	switch {
	case r.Tables == 0:
		return &Breach{"VAL: no table was compared"}
	case len(r.Differences) > 0:
		return &Breach{"VAL: " + strings.Join(r.Differences, "; ")}
	}
	return nil
}

// Appended compares every table of a publication with the log: the rows of the last
// attempt to copy it, from the unit on that opened it, and the inserts of the stream. A
// source that also updated or deleted is no source for it.
func Appended(ctx context.Context, source, sink, stream, publication string) (r AppendedReport, err error) {
	from, err := connect(ctx, source)
	if err != nil {
		return r, err
	}
	defer from.Close(context.WithoutCancel(ctx))
	tables, err := published(ctx, from, publication)
	if err != nil {
		return r, err
	}
	for _, t := range tables {
		rows := map[string]int{}
		sql := "SELECT to_jsonb(r)::text FROM (SELECT " + asText(t.columns) + " FROM " + t.name
		if t.filter != "" {
			sql += " WHERE " + t.filter
		}
		err := query(ctx, from, sql+") r", func(v [][]byte) error {
			r.Rows++
			rows[string(v[0])]++
			return nil
		})
		if err != nil {
			return r, err
		}
		if err := r.strike(ctx, sink, stream, t.name, rows); err != nil {
			return r, err
		}
		r.Tables++
	}
	return r, nil
}

// asText is the columns as the log has them.
func asText(columns []string) string {
	list := make([]string, len(columns))
	for i, column := range columns {
		list[i] = column + "::text AS " + column
	}
	return strings.Join(list, ", ")
}

const appendedSQL = `SELECT op, (payload::jsonb->'new')::text FROM testsink.log WHERE stream = $1 AND relation = $2
AND (op = 'insert' OR op = 'snapshot' AND seq >= (SELECT max(seq) FROM testsink.chunk WHERE stream = $1 AND relation = $2 AND first))`

// strike takes the entries of one table off its rows; what is left on either side differs.
func (r *AppendedReport) strike(ctx context.Context, sink, stream, name string, rows map[string]int) error {
	err := once(ctx, sink, appendedSQL, func(v [][]byte) error {
		if string(v[0]) == "snapshot" {
			r.Copied++
		} else {
			r.Streamed++
		}
		rows[string(v[1])]--
		return nil
	}, stream, plainName(name))
	if err != nil && !missing(err) {
		return err
	}
	var absent, foreign int
	for _, n := range rows {
		absent += max(0, n)
		foreign += max(0, -n)
	}
	if absent+foreign > 0 {
		r.Differences = append(r.Differences, fmt.Sprintf("%s: %d rows are missing, %d are foreign or repeated", name, absent, foreign))
	}
	return nil
}

// plainName is a quoted name as the log writes it, which does not quote.
func plainName(quoted string) string {
	const mark = "\x00"
	name := strings.ReplaceAll(quoted, `""`, mark)
	return strings.ReplaceAll(strings.ReplaceAll(name, `"`, ""), mark, `"`)
}

// CopyReport is what the units of snapshots were, in their order.
type CopyReport struct {
	Units       []CopyUnit
	Completions int
}

// CopyUnit is one unit as the sink noted it.
type CopyUnit struct {
	Run        string `json:"run"`
	Generation int    `json:"generation"`
	// Relation is empty in units that belong to no table.
	Relation string `json:"relation"`
	First    bool   `json:"first"`
	// Reset is the number on the wire.
	Reset    int  `json:"reset"`
	Last     bool `json:"last"`
	Sweep    bool `json:"sweep"`
	Rows     int  `json:"rows"`
	Complete bool `json:"complete"`
	// TokenBytes is nil in units without a token.
	TokenBytes *int `json:"token_bytes"`
	Writer     int  `json:"inserted_by"`
}

// Copies reads the units of a stream's snapshots.
func Copies(ctx context.Context, sink, stream string) (r CopyReport, err error) {
	err = once(ctx, sink, `SELECT to_jsonb(c)::text FROM testsink.chunk c WHERE stream = $1 ORDER BY seq`, func(v [][]byte) error {
		var u CopyUnit
		r.Units = append(r.Units, u)
		return json.Unmarshal(v[0], &r.Units[len(r.Units)-1])
	}, stream)
	if err != nil {
		if missing(err) {
			err = nil
		}
		return r, err
	}
	err = once(ctx, sink, `SELECT count(*)::int::text FROM testsink.completion WHERE stream = $1`, func(v [][]byte) error {
		_, err := fmt.Sscan(string(v[0]), &r.Completions)
		return err
	}, stream)
	return r, err
}

// Of are the units of one table.
func (r CopyReport) Of(relation string) []CopyUnit {
	var list []CopyUnit
	for _, u := range r.Units {
		if u.Relation == relation {
			list = append(list, u)
		}
	}
	return list
}
