package windows

import (
	"fmt"
	"os"
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
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/process"
)

const (
	allGroups = "U S L B W"
	// Without a choice a few rows run, one of each kind: `make windows` chooses all.
	usual = "U1 S4 L4 B2"
)

// major of the servers.
const major = 17

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

// cases are the groups together; each file adds its own.
var cases = slices.Concat(casesSource, casesSlot, casesTies, casesSink, casesStore, casesStoreServer, casesBatch, casesInstant, casesStandby)

func TestMain(m *testing.M) {
	if outer, code := process.Prepare(); outer {
		os.Exit(code)
	}
	pgtest.Main(m)
}

// house is what all rows share.
type house struct {
	server  *pgtest.Server // of sources
	sinks   *pgtest.Server // of sinks and stores: their open transactions keep no slot waiting
	program string

	mu        sync.Mutex
	dir       string
	witnesses []string
	ok, bad   int
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{dir: t.TempDir()}
	h.program = filepath.Join(h.dir, "sidecar")
	out, err := exec.Command("go", "build", "-tags", "failpoints", "-o", h.program, "../../cmd/replicant-sidecar").CombinedOutput()
	require.NoError(t, err, "%s", out)
	h.server = pgtest.Own(t, major, pgembed.Options{DecodingWorkMem: "64kB", Settings: quiet})
	h.sinks = pgtest.Own(t, major, pgembed.Options{Settings: quiet})
	return h
}

// quiet keeps records of the server itself out of the WAL, as far as it can be.
var quiet = map[string]string{"autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "4GB"}

// TestWindows runs the rows that REPLICANT_WINDOWS names, by group or by id.
func TestWindows(t *testing.T) {
	chosen := strings.Fields(os.Getenv("REPLICANT_WINDOWS"))
	if len(chosen) == 0 {
		chosen = strings.Fields(usual)
	}
	h := newHouse(t)
	var rows []row
	for _, r := range matrix(t, allGroups) {
		if slices.Contains(chosen, r.id) || slices.Contains(chosen, r.group) {
			rows = append(rows, r)
		}
	}
	require.NotEmpty(t, rows, "there is no row or group %v", chosen)
	t.Run("row", func(t *testing.T) {
		for _, r := range rows {
			for i, c := range cases {
				if c.id == r.id {
					t.Run(fmt.Sprintf("%s/%d", c.name(), i), func(t *testing.T) {
						t.Parallel()
						h.run(t, c)
					})
				}
			}
		}
	})
	for _, r := range rows {
		for _, line := range r.unserved() {
			h.line(false, line)
		}
	}
	h.fired(t, chosen)
	fmt.Printf("%d rows: %d windows ok, %d FAIL\n", len(rows), h.ok, h.bad)
	require.Zero(t, h.bad)
}

// run runs a case and prints its line.
func (h *house) run(t *testing.T, c window) {
	s := newScene(t, h)
	done := false
	defer func() {
		ok := done && !t.Failed()
		if ok && len(s.saw) == 0 {
			ok = false
			t.Error("the window was not witnessed")
		}
		h.line(ok, fmt.Sprintf("%-10s %-44s | %s | %s", c.name(), c.by, strings.Join(s.saw, ", "), c.must))
	}()
	c.run(s)
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

// fired asks which declared points of the whole groups no row has hit.
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
}
