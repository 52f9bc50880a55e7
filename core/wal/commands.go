package wal

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// query runs statements by the simple protocol and returns the rows of the last one.
func (c *Conn) query(ctx context.Context, sql string) ([][]string, error) {
	return simpleQuery(ctx, c.pg, sql)
}

func simpleQuery(ctx context.Context, pg *pgconn.PgConn, sql string) ([][]string, error) {
	results, err := pg.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, result := range results {
		rows = rows[:0]
		for _, values := range result.Rows {
			row := make([]string, len(values))
			for i, v := range values {
				row[i] = string(v)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// Identity is what the replication connection says of the server.
type Identity struct {
	SystemID string
	Timeline uint32
	// XLogPos is the end of the server's WAL at the time of asking.
	XLogPos  core.LSN
	Database string
}

// Identify asks IDENTIFY_SYSTEM.
func (c *Conn) Identify(ctx context.Context) (Identity, error) {
	if err := c.commandable(); err != nil {
		return Identity{}, err
	}
	rows, err := c.query(ctx, "IDENTIFY_SYSTEM")
	if err != nil {
		return Identity{}, classify(ctx, phaseCommand, err)
	}
	id, err := parseIdentity(rows)
	if err != nil {
		return Identity{}, core.NewHalt(core.HaltSourcePooler, phaseCommand.String(), "IDENTIFY_SYSTEM: %v", err)
	}
	return id, nil
}

func parseIdentity(rows [][]string) (Identity, error) {
	if len(rows) != 1 || len(rows[0]) != 4 {
		return Identity{}, errors.New("an answer of another shape")
	}
	row := rows[0]
	timeline, err := strconv.ParseUint(row[1], 10, 32)
	if err != nil || row[0] == "" {
		return Identity{}, errors.New("no system identifier or timeline")
	}
	at, err := core.ParseLSN(row[2])
	if err != nil {
		return Identity{}, err
	}
	return Identity{SystemID: row[0], Timeline: uint32(timeline), XLogPos: at, Database: row[3]}, nil
}

// CreateSlot makes the slot, for pgoutput and without a snapshot, and returns its
// consistent point: the position from which it streams. It waits for transactions that
// are running, at most SenderTimeout: then it is ErrSlotWaits. The server keeps that
// time, so that neither a half-made slot nor a process that makes one is left there.
func (c *Conn) CreateSlot(ctx context.Context) (core.LSN, error) {
	made, err := c.createSlot(ctx, "NOEXPORT_SNAPSHOT")
	if err != nil {
		return 0, err
	}
	return made.At, c.endWait(ctx)
}

// ExportedSlot is a new slot, and the snapshot that shows what was committed before it.
type ExportedSlot struct {
	// At is the consistent point: what ends at or before it is in the snapshot, all else
	// is streamed.
	At core.LSN
	// Snapshot can be adopted by other sessions until EndExport, or the end of this one.
	Snapshot string
}

// CreateSlotExporting is CreateSlot with a snapshot that lasts until EndExport. Any other
// command on this connection would end it too.
func (c *Conn) CreateSlotExporting(ctx context.Context) (ExportedSlot, error) {
	return c.createSlot(ctx, "EXPORT_SNAPSHOT")
}

// EndExport lets the exported snapshot go.
func (c *Conn) EndExport(ctx context.Context) error {
	if err := c.commandable(); err != nil {
		return err
	}
	return c.endWait(ctx)
}

// Check finds out, without sending anything, whether the server still has this
// connection. It is for the time between commands.
func (c *Conn) Check(ctx context.Context) error {
	if err := c.commandable(); err != nil {
		return err
	}
	//lint:ignore SA1019 what is recommended instead sends a query, which would end an exported snapshot
	return classify(ctx, phaseCommand, c.pg.CheckConn())
}

func (c *Conn) createSlot(ctx context.Context, snapshot string) (ExportedSlot, error) {
	if err := c.commandable(); err != nil {
		return ExportedSlot{}, err
	}
	temporary := ""
	if c.options.Temporary {
		temporary = " TEMPORARY"
	}
	patience := strconv.FormatInt(c.options.SenderTimeout.Milliseconds(), 10)
	if _, err := c.query(ctx, "SET lock_timeout = "+quoteLiteral(patience)); err != nil {
		return ExportedSlot{}, classify(ctx, phaseCreate, err)
	}
	rows, err := c.query(ctx, "CREATE_REPLICATION_SLOT "+quoteIdentifier(c.options.Slot)+temporary+
		" LOGICAL pgoutput "+snapshot)
	if err != nil {
		return ExportedSlot{}, classify(ctx, phaseCreate, err)
	}
	if len(rows) != 1 || len(rows[0]) != 4 || rows[0][0] != c.options.Slot {
		return ExportedSlot{}, core.NewHalt(core.HaltSourceRefused, phaseCreate.String(), "the answer has another shape")
	}
	at, err := core.ParseLSN(rows[0][1])
	if err != nil || at == 0 {
		return ExportedSlot{}, core.NewHalt(core.HaltSourceRefused, phaseCreate.String(), "the consistent point is no position")
	}
	return ExportedSlot{At: at, Snapshot: rows[0][2]}, nil
}

// endWait takes back the bound of createSlot.
func (c *Conn) endWait(ctx context.Context) error {
	_, err := c.query(ctx, "SET lock_timeout = '0'")
	return classify(ctx, phaseCreate, err)
}

var errNoSlot = errors.New("the slot does not exist")

// DropSlot drops the slot of this connection's options. A slot that somebody streams from
// is ErrSlotBusy; one that does not exist is no error.
func (c *Conn) DropSlot(ctx context.Context) error {
	if err := c.commandable(); err != nil {
		return err
	}
	_, err := c.query(ctx, "DROP_REPLICATION_SLOT "+quoteIdentifier(c.options.Slot))
	err = classify(ctx, phaseDrop, err)
	if errors.Is(err, errNoSlot) {
		return nil
	}
	return err
}
