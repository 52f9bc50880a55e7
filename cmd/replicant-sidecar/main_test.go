package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

func TestMain(m *testing.M) {
	testscript.Main(checked{m}, map[string]func(){"replicant-sidecar": main})
}

// checked looks for leaked goroutines after the tests.
type checked struct{ m *testing.M }

func (c checked) Run() int {
	code := c.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	return code
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			// Nothing of the machine's own settings counts here.
			var kept []string
			for _, v := range env.Vars {
				if !strings.HasPrefix(v, "REPLICANT_") {
					kept = append(kept, v)
				}
			}
			env.Vars = kept
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// exits CODE command...: the command must end with exactly this code.
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				err := ts.Exec(args[1], args[2:]...)
				code := "0"
				if err != nil {
					code = strings.TrimPrefix(err.Error(), "exit status ")
				}
				if code != args[0] {
					ts.Fatalf("exit code %s, want %s", code, args[0])
				}
			},
		},
	})
}

func TestHaltsPageHasNotDrifted(t *testing.T) {
	page, err := os.ReadFile("../../docs/halts.md")
	require.NoError(t, err)
	require.Equal(t, haltsMarkdown(), string(page), "run: go run ./cmd/replicant-sidecar explain --markdown > docs/halts.md")
	for _, text := range core.HaltTexts() {
		require.Contains(t, string(page), "\n## "+string(text.Code)+"\n")
	}
}
