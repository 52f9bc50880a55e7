package incremental

import (
	"slices"
	"strconv"
	"strings"
)

// Snapshot is which transactions a snapshot of Postgres shows, as pg_current_snapshot
// prints it: all below Max, but for Running. Numbers are 64 bits wide.
type Snapshot struct {
	Min, Max uint64
	Running  []uint64
}

// ParseSnapshot reads xmin:xmax:xip,xip.
func ParseSnapshot(text string) (s Snapshot, ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return s, false
	}
	var errMin, errMax error
	s.Min, errMin = strconv.ParseUint(parts[0], 10, 64)
	s.Max, errMax = strconv.ParseUint(parts[1], 10, 64)
	if errMin != nil || errMax != nil || s.Max < s.Min {
		return s, false
	}
	for text := range strings.SplitSeq(parts[2], ",") {
		if text == "" {
			continue
		}
		xid, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return s, false
		}
		s.Running = append(s.Running, xid)
	}
	return s, true
}

// Visible reports whether the snapshot shows a transaction that has committed. The stream
// and the locks tell 32 bits of its number: what is meant is the one nearest to Max.
func (s *Snapshot) Visible(xid uint32) bool {
	wide := s.widen(xid)
	return wide < s.Max && !slices.Contains(s.Running, wide)
}

func (s *Snapshot) widen(xid uint32) uint64 {
	const period = 1 << 32
	wide := s.Max&^(period-1) | uint64(xid)
	switch {
	case wide > s.Max && wide-s.Max > period/2 && wide >= period:
		wide -= period
	case wide < s.Max && s.Max-wide > period/2:
		wide += period
	}
	return wide
}
