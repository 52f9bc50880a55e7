package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What this run has seen counts from the moment at which it is durable: a unit that was
// lost comes again, and its first rows in the shape that they had.
func TestShapesAreThoseOfDurableRows(t *testing.T) {
	width := func(r *rig) int {
		state := r.m.shapes.state(r.m.shapes.durable)
		if len(state.Relations) == 0 {
			return 0
		}
		return len(state.Relations[0].Columns)
	}
	r := newRig(t, nil)
	r.transaction(110, 120, "x")
	u := r.next()
	require.Zero(t, width(r), "sent is not durable")
	r.ack(u)
	require.Equal(t, 2, width(r))
}
