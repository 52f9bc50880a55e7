package windows

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
	"github.com/replicant-sidecar/replicant-sidecar/internal/testsink/process"
)

const (
	allGroups = "U S L B W P N"
	// Without a choice a few rows run, one of each kind: `make windows` chooses all.
	usual = "U1 S4 L4 B2"
)

func TestMain(m *testing.M) {
	if outer, code := process.Prepare(); outer {
		os.Exit(code)
	}
	pgtest.Main(m)
}

// TestWindows runs the rows that REPLICANT_WINDOWS names, by group or by id.
func TestWindows(t *testing.T) {
	chosen := strings.Fields(os.Getenv("REPLICANT_WINDOWS"))
	if len(chosen) == 0 {
		chosen = strings.Fields(usual)
	}
	var rows []row
	var todo []entry
	for _, r := range matrix(t, allGroups) {
		if slices.Contains(chosen, r.id) || slices.Contains(chosen, r.group) {
			rows = append(rows, r)
			todo = append(todo, casesOf(r.id)...)
		}
	}
	require.NotEmpty(t, rows, "there is no row or group %v", chosen)
	h := newHouse(t, todo)
	t.Run("row", func(t *testing.T) {
		for _, e := range todo {
			t.Run(fmt.Sprintf("%s/%d", e.name(), e.nth), func(t *testing.T) {
				t.Parallel()
				h.run(t, e)
			})
		}
	})
	for _, r := range rows {
		for _, line := range r.unserved() {
			h.line(false, line)
		}
	}
	h.fired(t, chosen)
	fmt.Printf("%d rows: %d windows ok, %d FAIL; on Postgres %s\n", len(rows), h.ok, h.bad, h.majors())
	require.Zero(t, h.bad)
}
