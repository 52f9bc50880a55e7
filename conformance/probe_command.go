package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

const (
	// probeTime is how long a probe's command may take, probeOutput how much it may print.
	probeTime   = time.Minute
	probeOutput = 256 << 20
)

// commandProbe runs the sink author's command.
type commandProbe struct {
	args []string
	dir  string
}

// NewCommandProbe runs a command of the author's for each read. It gets one of these as
// its last arguments, and prints JSON lines:
//
//	read SCHEMA TABLE   {"columns": ["id", "name"]}, then {"row": ["MQ==", null]} for each
//	                    row: base64 of the bytes, null for NULL, false for "never sent".
//	                    {"missing": true} where there is no such table
//	log STREAM          {"entry": {...}} for each entry, a LogEntry of probe.proto as JSON;
//	                    {"missing": true} where the sink keeps no log
//	reset SCHEMA        nothing
func NewCommandProbe(dir string, args ...string) (Probe, error) {
	if len(args) == 0 {
		return nil, errors.New("no command")
	}
	if err := lookPath(args[0]); err != nil {
		return nil, err
	}
	return &commandProbe{args: args, dir: dir}, nil
}

// probeLine is any line that a probe's command prints.
type probeLine struct {
	Missing bool              `json:"missing"`
	Columns []string          `json:"columns"`
	Row     []json.RawMessage `json:"row"`
	Entry   json.RawMessage   `json:"entry"`
}

// run gives the lines of one call.
func (p *commandProbe) run(ctx context.Context, args ...string) ([]probeLine, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	c := exec.CommandContext(ctx, p.args[0], append(p.args[1:len(p.args):len(p.args)], args...)...)
	c.Dir, c.Env, c.WaitDelay = p.dir, os.Environ(), time.Second
	var stderr output
	out := &bounded{left: probeOutput}
	c.Stdout, c.Stderr = out, &stderr
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", args[0], err, stderr.String())
	}
	if out.left < 0 {
		return nil, fmt.Errorf("%s: more than %d bytes were printed", args[0], probeOutput)
	}
	var lines []probeLine
	decode := json.NewDecoder(&out.Buffer)
	for {
		var line probeLine
		switch err := decode.Decode(&line); {
		case errors.Is(err, io.EOF):
			return lines, nil
		case err != nil:
			return nil, fmt.Errorf("%s: line %d is not JSON as agreed: %w", args[0], len(lines)+1, err)
		}
		lines = append(lines, line)
	}
}

// bounded keeps no more than it may.
type bounded struct {
	bytes.Buffer
	left int
}

// Write never blocks and never fails; what is too much is counted.
func (b *bounded) Write(p []byte) (int, error) {
	b.left -= len(p)
	if b.left < 0 {
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// ReadTable runs the command's read.
func (p *commandProbe) ReadTable(ctx context.Context, schema, table string) (Table, error) {
	lines, err := p.run(ctx, "read", schema, table)
	if err != nil {
		return Table{}, err
	}
	var out Table
	for i, line := range lines {
		switch {
		case line.Missing:
			return Table{Missing: true}, nil
		case line.Columns != nil && i == 0:
			out.Columns = line.Columns
		case line.Row == nil || len(line.Row) != len(out.Columns):
			return Table{}, fmt.Errorf("read: line %d has %d values for %d columns", i+1, len(line.Row), len(out.Columns))
		default:
			var row []Value
			for _, cell := range line.Row {
				v, err := cellOf(cell)
				if err != nil {
					return Table{}, fmt.Errorf("read: line %d: %w", i+1, err)
				}
				row = append(row, v)
			}
			out.Rows = append(out.Rows, row)
		}
	}
	if out.Columns == nil {
		return Table{}, errors.New("read: the first line has no columns")
	}
	return out, nil
}

func cellOf(cell json.RawMessage) (Value, error) {
	switch string(cell) {
	case "null":
		return Value{Null: true}, nil
	case "false":
		return Value{Unknown: true}, nil
	}
	var text []byte // JSON of bytes is base64
	if err := json.Unmarshal(cell, &text); err != nil {
		return Value{}, errors.New("a value is neither base64, null nor false")
	}
	return Value{Text: text}, nil
}

// ReadLog runs the command's log.
func (p *commandProbe) ReadLog(ctx context.Context, stream string) ([]LogEntry, error) {
	lines, err := p.run(ctx, "log", stream)
	if err != nil {
		return nil, err
	}
	var out []LogEntry
	for i, line := range lines {
		if line.Missing {
			return nil, ErrNoLog
		}
		if len(line.Entry) == 0 {
			return nil, fmt.Errorf(`log: line %d is neither {"entry": {...}} nor {"missing": true}`, i+1)
		}
		e := &sinkv1.LogEntry{}
		if err := readJSON(line.Entry, e); err != nil {
			return nil, fmt.Errorf("log: line %d is no entry: %w", i+1, err)
		}
		out = append(out, LogEntryOf(e))
	}
	return out, nil
}

// Reset runs the command's reset.
func (p *commandProbe) Reset(ctx context.Context, schema string) error {
	_, err := p.run(ctx, "reset", schema)
	return err
}

// WorksStopped reports that it is a process of its own.
func (p *commandProbe) WorksStopped() bool { return true }

// Close does nothing.
func (p *commandProbe) Close() error { return nil }
