package conformance

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatHidesFromItsSinkIsKilled: a process without the sink's group, session and
// environment is still below it.
func TestWhatHidesFromItsSinkIsKilled(t *testing.T) {
	for name, end := range map[string]func(*Managed) error{
		"kill": func(m *Managed) error { return m.Kill(context.Background()) },
		"stop": func(m *Managed) error { return m.Stop(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			m := managedShell(t, `setsid env -i sh -c 'sleep 64 & echo hidden $$ $!; wait' & wait`)
			require.NoError(t, m.Start(context.Background()))
			printed(t, m, "\n")
			var pids [2]int
			_, err := fmt.Sscanf(m.Output(), "hidden %d %d", &pids[0], &pids[1])
			require.NoError(t, err)
			for _, pid := range pids {
				state, _, _ := statOf(pid)
				require.NotEmpty(t, state)
			}
			require.NoError(t, end(m))
			for _, pid := range pids {
				state, _, _ := statOf(pid)
				require.Contains(t, []string{"", "Z"}, state)
			}
		})
	}
}
