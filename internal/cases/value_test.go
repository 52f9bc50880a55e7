package cases_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// given is a case that is no more than statements and what the sink must be given.
type given struct {
	setup []string // before the slots are made
	run   []string
	want  []string // see road.shown
	// wantOn replaces want where majors differ.
	wantOn func(major int) []string
	// also looks at each road before it is compared with the source.
	also func(r *road)
}

// deliver runs a case with two roads: one through gRPC under a role as it comes, one
// in-process under the hostile role. Both must be given the same.
func deliver(t *testing.T, c given) {
	t.Helper()
	each(t, func(s *scene) {
		s.sql(c.setup...)
		s.road(way{})
		s.road(way{route: inProcess, role: s.hostile(hostileSettings...)})
		s.run(c)
	})
}

// run runs the statements on the roads that there are. What is there in the end is read
// once more, as snapshots read it.
func (s *scene) run(c given) {
	s.Helper()
	s.sql(c.run...)
	s.mark()
	want := c.want
	if c.wantOn != nil {
		want = c.wantOn(s.major)
	}
	for _, r := range s.roads {
		require.Equal(s, want, r.shown())
		if c.also != nil {
			c.also(r)
		}
	}
	s.done()
	rows := s.roads[len(s.roads)-1].copied()
	if strings.HasPrefix(s.Name(), "TestV") {
		require.NotZero(s, rows, "a case of values leaves none to be read by a snapshot")
	}
}
