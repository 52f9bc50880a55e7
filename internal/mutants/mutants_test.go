package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const diff = "diff --git a/x/y.go b/x/y.go\n--- a/x/y.go\n+++ b/x/y.go\n@@ -1 +1 @@\n-a\n+b\n"

func TestHeadsAreRead(t *testing.T) {
	m := &mutant{}
	require.NoError(t, m.parse("# what: w\n# rule: r\n# test: ./core/wal TestA|TestB\n# test: examples/python-sink test_c\n# env: A=b c\n"+diff))
	require.Equal(t, &mutant{
		what: "w", rule: "r", env: []string{"A=b c"}, paths: []string{"x/y.go"},
		tests: []suite{{"./core/wal", "TestA|TestB"}, {"examples/python-sink", "test_c"}},
	}, m)
	require.False(t, m.tests[0].python())
	require.True(t, m.tests[1].python())
	for name, text := range map[string]string{
		"no diff":          "# what: w\n# rule: r\n# test: ./a T\n",
		"nothing said":     "# what: w\n" + diff,
		"a word too many":  "# what: w\n# rule: r\n# test: ./a T\n# note: n\n" + diff,
		"a line of no use": "# what: w\n# rule: r\n# test: ./a T\nhello\n" + diff,
		"no test named":    "# what: w\n# rule: r\n# test: ./a\n" + diff,
		"no file":          "# what: w\n# rule: r\n# test: ./a T\ndiff --git a/x b/x\n",
	} {
		require.Error(t, (&mutant{}).parse(text), name)
	}
}

func TestPatchesOfThisFolder(t *testing.T) {
	all, err := load(".", nil)
	require.NoError(t, err)
	for _, m := range all {
		for _, s := range m.tests {
			require.DirExists(t, filepath.Join("../..", s.dir), m.file)
		}
		for _, path := range m.paths {
			require.FileExists(t, filepath.Join("../..", path), m.file)
		}
	}
	some, err := load(".", []string{all[1].id})
	require.NoError(t, err)
	require.Len(t, some, 1)
	_, err = load(".", []string{"999"})
	require.ErrorContains(t, err, "999")

	twice := t.TempDir()
	for _, name := range []string{"001-a.patch", "001-b.patch", "2-c.patch"} {
		require.NoError(t, os.WriteFile(filepath.Join(twice, name), []byte("# what: w\n# rule: r\n# test: ./a T\n"+diff), 0o600))
	}
	_, err = load(twice, nil)
	require.ErrorContains(t, err, "another patch has this number")
	require.ErrorContains(t, err, "2-c.patch")
}

// Only a test that ran and failed has noticed a mutant.
func TestVerdicts(t *testing.T) {
	for name, row := range map[string]struct {
		exit int
		out  string
		want verdict
	}{
		"green":             {0, "=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\n", passed},
		"red":               {1, "--- FAIL: TestA (0.00s)\nFAIL\n", failed},
		"red below":         {1, "    --- FAIL: TestA/b (0.00s)\n", failed},
		"panic in a test":   {2, "--- FAIL: TestA (0.00s)\npanic: x [recovered]\n", failed},
		"panic elsewhere":   {2, "panic: x\n\ngoroutine 1 [running]:\n", unclear},
		"hang":              {2, "--- FAIL: TestA (0.00s)\npanic: test timed out after 1m\n", unclear},
		"leak after green":  {1, "--- PASS: TestA (0.00s)\ngoleak: Errors\n", unclear},
		"no test":           {0, "testing: warning: no tests to run\nPASS\n", unclear},
		"skipped":           {0, "--- PASS: TestA (0.00s)\n--- SKIP: TestB (0.00s)\nPASS\n", unclear},
		"skipped below":     {0, "--- PASS: TestA (0.00s)\n    --- SKIP: TestA/b (0.00s)\nPASS\n", unclear},
		"a name in a value": {1, "got \"--- FAIL: TestA\"\n", unclear},
	} {
		got, _ := judgeGo(row.exit, row.out)
		require.Equal(t, row.want, got, name)
	}
	for exit, want := range map[int]verdict{0: passed, 1: failed, 2: unclear, 3: unclear, 4: unclear, 5: unclear, -1: unclear} {
		got, _ := judgePytest(exit, "3 passed in 0.1s")
		require.Equal(t, want, got, exit)
	}
	got, _ := judgePytest(0, "2 passed, 1 skipped in 0.1s")
	require.Equal(t, unclear, got)
}

// A tree is a copy that can be broken and mended, and knows a patch that no longer applies.
func TestTreeIsBrokenAndMended(t *testing.T) {
	ctx, root, work := t.Context(), t.TempDir(), filepath.Join(t.TempDir(), "tree")
	write := func(dir, name, text string) {
		t.Helper()
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(work, name))
		require.NoError(t, err)
		return string(text)
	}
	_, err := output(ctx, root, "git", "init", "-q")
	require.NoError(t, err)
	write(root, ".gitignore", "made/\n")
	write(root, "x/y.go", "a\n")
	write(root, "made/z", "z\n")
	write(root, "examples/python-sink/gen/stub.py", "s\n")
	write(root, ".git/info/exclude", "gen\n")
	tree, err := copyTree(ctx, root, work)
	require.NoError(t, err)
	require.Equal(t, "a\n", read("x/y.go"), "a file that is not committed yet is copied")
	require.NoFileExists(t, filepath.Join(work, "made/z"))
	require.Equal(t, "s\n", read("examples/python-sink/gen/stub.py"))

	m := &mutant{file: filepath.Join(t.TempDir(), "001-a.patch")}
	require.NoError(t, os.WriteFile(m.file, []byte("# what: w\n# rule: r\n# test: ./a T\n"+diff), 0o600))
	require.NoError(t, m.parse("# what: w\n# rule: r\n# test: ./a T\n"+diff))
	require.NoError(t, tree.check(ctx, m))
	require.Equal(t, "a\n", read("x/y.go"))
	require.NoError(t, tree.apply(ctx, m))
	require.Equal(t, "b\n", read("x/y.go"))
	require.ErrorContains(t, tree.check(ctx, m), "patch does not apply")
	require.NoError(t, tree.mend(ctx, m))
	require.Equal(t, "a\n", read("x/y.go"))

	r := &runner{tree: tree, binaries: work}
	write(work, "x/y.go", "moved on\n")
	word, why := r.one(ctx, m)
	require.Equal(t, spoilt, word)
	require.Contains(t, why, "does not apply")
}
