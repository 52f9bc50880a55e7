package wal

import (
	"context"
	"strconv"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Fork asks TIMELINE_HISTORY where the history of timeline now left timeline before: up to
// there the two are one. It is 0 where before is no ancestor of now.
// https://www.postgresql.org/docs/current/protocol-replication.html
func (c *Conn) Fork(ctx context.Context, before, now uint32) (core.LSN, error) {
	if err := c.commandable(); err != nil {
		return 0, err
	}
	rows, err := c.query(ctx, "TIMELINE_HISTORY "+strconv.FormatUint(uint64(now), 10))
	if err != nil {
		return 0, classify(ctx, phaseCommand, err)
	}
	if len(rows) != 1 || len(rows[0]) != 2 {
		return 0, core.NewHalt(core.HaltSourceRefused, phaseCommand.String(), "the timeline's history has another shape")
	}
	return forkIn(rows[0][1], before)
}

// forkIn reads a history file: a line for each ancestor, its number and the position at
// which it was left; # begins a comment.
func forkIn(history string, before uint32) (core.LSN, error) {
	for line := range strings.Lines(history) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		timeline, err := strconv.ParseUint(fields[0], 10, 32)
		if err != nil || len(fields) < 2 {
			return 0, core.NewHalt(core.HaltSourceRefused, phaseCommand.String(), "the timeline's history cannot be read")
		}
		if uint32(timeline) != before {
			continue
		}
		at, err := core.ParseLSN(fields[1])
		if err != nil {
			return 0, core.NewHalt(core.HaltSourceRefused, phaseCommand.String(), "the timeline's history names no position")
		}
		return at, nil
	}
	return 0, nil
}
