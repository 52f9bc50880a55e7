package windows

import (
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// window is one case of a row.
type window struct {
	id   string
	part int    // of the row; 0 is all of it
	by   string // how it is hit
	must string // what is judged
	run  func(s *scene)
}

func (c window) name() string {
	if c.part == 0 {
		return c.id
	}
	return fmt.Sprintf("%s.%d", c.id, c.part)
}

// entry is a case among all of them.
type entry struct {
	window
	nth   int // of its row
	since int // the oldest major that has what it needs
}

var cases []entry

// add takes a file's cases in, from its init. They need Postgres of that major or later.
func add(since int, windows []window) {
	for _, c := range windows {
		cases = append(cases, entry{window: c, nth: len(casesOf(c.id)), since: since})
	}
}

func casesOf(id string) (all []entry) {
	for _, e := range cases {
		if e.id == id {
			all = append(all, e)
		}
	}
	return all
}

const anyMajor = pgembed.OldestMajor

// turnEnv moves every case on by so many majors; five turns show each case to all five.
const turnEnv = "REPLICANT_WINDOWS_TURN"

// major chooses the case's Postgres: always the same one, another one for the next case.
// REPLICANT_PG_MAJORS names others to choose from. A case that cannot run on any of them
// runs on the oldest one that it can run on.
func (e entry) major(t *testing.T) int {
	t.Helper()
	majors, err := pgtest.Majors()
	require.NoError(t, err)
	majors = slices.DeleteFunc(majors, func(m int) bool { return m < e.since })
	if len(majors) == 0 {
		return e.since
	}
	turn := 0
	if text := os.Getenv(turnEnv); text != "" {
		turn, err = strconv.Atoi(text)
		require.NoError(t, err, turnEnv)
		require.GreaterOrEqual(t, turn, 0, turnEnv)
	}
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s %d", e.by, e.nth)
	return majors[(int(h.Sum32()>>8)+turn)%len(majors)]
}

// Every major is chosen by many cases, and five turns show a case to all of them.
func TestMajorsAreSpread(t *testing.T) {
	t.Setenv(pgtest.EnvMajors, "")
	count := map[int]int{}
	for _, e := range cases {
		seen := map[int]bool{}
		for turn := range 5 {
			t.Setenv(turnEnv, fmt.Sprint(turn))
			m := e.major(t)
			require.GreaterOrEqual(t, m, e.since)
			seen[m] = true
			if turn == 0 {
				count[m]++
			}
		}
		require.Len(t, seen, pgembed.NewestMajor-e.since+1, e.name())
	}
	for m := pgembed.OldestMajor; m <= pgembed.NewestMajor; m++ {
		require.GreaterOrEqual(t, count[m], len(cases)/10, "Postgres %d: %v", m, count)
	}
	t.Setenv(pgtest.EnvMajors, "14")
	require.Equal(t, 17, entry{since: 17}.major(t))
	require.Equal(t, 14, entry{since: 14}.major(t))
}
