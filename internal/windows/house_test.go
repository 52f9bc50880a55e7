package windows

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// house is what all rows share.
type house struct {
	server  map[int]*pgtest.Server // of sources, by major
	sinks   map[int]*pgtest.Server // of sinks and stores: their open transactions keep no slot waiting
	program string

	mu        sync.Mutex
	dir       string
	witnesses []string
	ok, bad   int
}

func newHouse(t *testing.T, todo []entry) *house {
	t.Helper()
	h := &house{dir: t.TempDir(), server: map[int]*pgtest.Server{}, sinks: map[int]*pgtest.Server{}}
	h.program = filepath.Join(h.dir, "sidecar")
	out, err := exec.Command("go", "build", "-tags", "failpoints", "-o", h.program, "../../cmd/replicant-sidecar").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, e := range todo {
		if major := e.major(t); h.server[major] == nil {
			h.server[major] = pgtest.Own(t, major, pgembed.Options{DecodingWorkMem: "64kB", Settings: quiet})
			h.sinks[major] = pgtest.Own(t, major, pgembed.Options{Settings: quiet})
		}
	}
	return h
}

// quiet keeps records of the server itself out of the WAL, as far as it can be.
var quiet = map[string]string{"autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "4GB"}

func (h *house) majors() string {
	return strings.Trim(fmt.Sprint(slices.Sorted(maps.Keys(h.server))), "[]")
}

// run runs a case and prints its line.
func (h *house) run(t *testing.T, e entry) {
	s := newScene(t, h, e.major(t))
	done := false
	defer func() {
		ok := done && !t.Failed()
		if ok && len(s.saw) == 0 {
			ok = false
			t.Error("the window was not witnessed")
		}
		h.line(ok, fmt.Sprintf("%-5s %d %-44s | %s | %s", e.name(), s.major, e.by, strings.Join(s.saw, ", "), e.must))
	}()
	e.run(s)
	done = true
}

func (h *house) line(ok bool, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	verdict := "ok"
	if ok {
		h.ok++
	} else {
		verdict = "FAIL"
		h.bad++
	}
	fmt.Printf("%-4s %s\n", verdict, text)
}

// onePassage are points that a process passes once.
var onePassage = map[failpoint.Point]bool{
	failpoint.DrainBegin: true, failpoint.DrainEnd: true,
	failpoint.SnapshotSlot: true, failpoint.SnapshotCopied: true, failpoint.SnapshotCompleted: true,
}

func contains(groups []string, all ...string) bool {
	return !slices.ContainsFunc(all, func(g string) bool { return !slices.Contains(groups, g) })
}

// fired asks which declared points of the whole groups no row has hit, and which only at
// their first passage in a process or only at a later one.
func (h *house) fired(t *testing.T, chosen []string) {
	var groups []string
	for _, g := range strings.Fields(allGroups) {
		if slices.Contains(chosen, g) {
			groups = append(groups, g)
		}
	}
	if len(groups) == 0 {
		return
	}
	missing, err := failpoint.NotFired(h.witnesses, groups...)
	require.NoError(t, err)
	h.line(len(missing) == 0, fmt.Sprintf("points of groups %v that no row has fired: %v", groups, missing))
	if !contains(groups, "U", "S", "L", "B", "W") {
		return // the other passage may be another group's
	}
	first, later := map[failpoint.Point]bool{}, map[failpoint.Point]bool{}
	for _, file := range h.witnesses {
		all, err := failpoint.ReadWitness(file)
		require.NoError(t, err)
		for _, w := range all {
			if w.Ordinal == 1 {
				first[w.Point] = true
			} else {
				later[w.Point] = true
			}
		}
	}
	var half []failpoint.Point
	for _, p := range slices.Concat(slices.Collect(maps.Keys(first)), slices.Collect(maps.Keys(later))) {
		copying := strings.HasPrefix(string(p), "snapshot.") || strings.HasPrefix(string(p), "chunk.")
		if first[p] != later[p] && !onePassage[p] && (!copying || contains(groups, "P", "N")) {
			half = append(half, p)
		}
	}
	slices.Sort(half)
	h.line(len(half) == 0, fmt.Sprintf("points fired at a first passage only, or at a later one only: %v", half))
}
