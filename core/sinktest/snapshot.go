package sinktest

import (
	"context"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Snapshots is what a sink of this package keeps of snapshots, and what a test may do to
// its calls.
type Snapshots struct {
	// BeforeSnapshot is called before a unit takes effect; an error refuses it.
	// AfterSnapshot is called once it is durable; an error stands for a lost answer.
	BeforeSnapshot, AfterSnapshot func(*core.SnapshotUnit) error

	units     []core.SnapshotUnit
	token     []byte
	completed []core.SnapshotCompleteUnit
}

func (s *Snapshots) before(u *core.SnapshotUnit) error {
	if s.BeforeSnapshot == nil {
		return nil
	}
	return s.BeforeSnapshot(u)
}

// apply stores a unit as a whole: what it says of rows, and the token with them.
func (s *Snapshots) apply(m *Mirror, u *core.SnapshotUnit) error {
	m.Snapshot(u)
	copied := *u
	copied.Rows = append([]core.Tuple(nil), u.Rows...)
	for i := range copied.Rows {
		copied.Rows[i] = copied.Rows[i].Clone()
	}
	if u.Token != nil {
		copied.Token = append([]byte{}, u.Token...)
		s.token = copied.Token
	}
	s.units = append(s.units, copied)
	if s.AfterSnapshot == nil {
		return nil
	}
	return s.AfterSnapshot(u)
}

// HandleSnapshot stores rows of a snapshot, or flags and a token alone.
func (m *Memory) HandleSnapshot(_ context.Context, u *core.SnapshotUnit) (core.Counts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.Snapshots.before(u); err != nil {
		return core.Counts{}, err
	}
	if err := m.guard(u.Call, u.Expected); err != nil {
		return core.Counts{}, err
	}
	m.journal = append(m.journal, "snapshot")
	return core.Counts{}, m.Snapshots.apply(&m.mirror, u)
}

// HandleSnapshotComplete stores the first position.
func (m *Memory) HandleSnapshotComplete(_ context.Context, u *core.SnapshotCompleteUnit) (core.Ack, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Before != nil {
		if err := m.Before(u.Call, u.Checkpoint); err != nil {
			return core.Ack{}, err
		}
	}
	if err := m.guard(u.Call, u.Expected); err != nil {
		return core.Ack{}, err
	}
	if u.Checkpoint > m.stored.Position {
		m.stored.Position = u.Checkpoint
		if u.ResumeState != nil {
			m.stored.ResumeState = append([]byte{}, u.ResumeState...)
		}
		m.Snapshots.completed = append(m.Snapshots.completed, *u)
		m.journal = append(m.journal, "snapshot complete")
	}
	if m.After != nil {
		if err := m.After(u.Call, u.Checkpoint); err != nil {
			return core.Ack{}, err
		}
	}
	return core.Ack{Checkpoint: u.Checkpoint}, nil
}

// SnapshotProgress gives back the token of the last unit that had one.
func (m *Memory) SnapshotProgress(context.Context, core.SnapshotProgressRequest) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Snapshots.token, nil
}

// Rows are the rows of a table as a mirror holds them, in the order of their keys.
func (m *Memory) Rows(schema, table string) []Row {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mirror.Rows(schema, table)
}

// SnapshotUnits are the units that took effect, in order, repeats included.
func (m *Memory) SnapshotUnits() []core.SnapshotUnit {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]core.SnapshotUnit(nil), m.Snapshots.units...)
}

// Completed are the completions that moved the position.
func (m *Memory) Completed() []core.SnapshotCompleteUnit {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]core.SnapshotCompleteUnit(nil), m.Snapshots.completed...)
}

// Token is the progress token; nil if there never was one.
func (m *Memory) Token() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Snapshots.token
}

// SetToken plants a progress token.
func (m *Memory) SetToken(token []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Snapshots.token = token
}

// HandleSnapshot takes rows of a snapshot. The token is the sidecar's to keep.
func (l *Lib) HandleSnapshot(ctx context.Context, u *core.SnapshotUnit) (core.Counts, error) {
	if err := l.Snapshots.before(u); err != nil {
		return core.Counts{}, err
	}
	_, err := l.call(ctx, u.Call, u.LSN, func() error { return l.Snapshots.apply(&l.mirror, u) })
	return core.Counts{}, err
}

// Rows are the rows of a table as a mirror would hold them, in the order of their keys.
func (l *Lib) Rows(schema, table string) []Row {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mirror.Rows(schema, table)
}

// SnapshotUnits are the units that took effect, in order, repeats included.
func (l *Lib) SnapshotUnits() []core.SnapshotUnit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]core.SnapshotUnit(nil), l.Snapshots.units...)
}
