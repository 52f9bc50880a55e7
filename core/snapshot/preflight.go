package snapshot

import (
	"context"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Preflight finds what would stop a copy, before anything is made at the source:
// publications that contradict each other, rights that are missing, policies that would
// hide rows, more tables than one completion can name.
func (s Source) Preflight(ctx context.Context, publications []string) error {
	conn, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = closeConn(conn) }()
	var tables []*Table
	err = patiently(ctx, s.Waiting, func() (err error) {
		if _, err = query(ctx, conn, "SET lock_timeout = "+lockWaitSetting); err == nil {
			tables, err = Tables(ctx, conn, publications)
		}
		return s.locked(ctx, conn, err)
	})
	if err != nil {
		return err
	}
	if len(tables) > core.RelationsMax {
		return core.NewHalt(core.HaltConfigInvalid, "snapshot", "the publications stream %d tables, more than the %d that one copy can name",
			len(tables), core.RelationsMax)
	}
	for _, t := range tables {
		if err := t.Refusal(); err != nil {
			return err
		}
	}
	return nil
}

// classified leaves halts as they are.
func (s Source) classified(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := core.AsHalt(err); ok {
		return err
	}
	return s.Classify(ctx, err)
}
