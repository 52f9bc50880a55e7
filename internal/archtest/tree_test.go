package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is the path before every import of our own.
const module = "github.com/replicant-sidecar/replicant-sidecar/"

// source is one Go file. Its path is slash-separated and relative to the checkout.
type source struct {
	path      string
	test      bool
	generated bool
	lines     int
	ast       *ast.File
	imports   []string
}

// dir is the folder of the file, "core/wal".
func (s *source) dir() string { return path.Dir(s.path) }

// under reports whether the file lies in one of the folders or below it.
func (s *source) under(dirs ...string) bool {
	for _, dir := range dirs {
		if s.dir() == dir || strings.HasPrefix(s.dir(), dir+"/") {
			return true
		}
	}
	return false
}

// main reports whether the file belongs to a program.
func (s *source) main() bool { return s.ast.Name.Name == "main" }

// tree is all Go files of a checkout, or a few planted ones.
type tree struct {
	root  string
	fset  *token.FileSet
	files []*source
}

// at is the place of a node as path:line.
func (t *tree) at(s *source, node ast.Node) string {
	return s.path + ":" + strconv.Itoa(t.fset.Position(node.Pos()).Line)
}

// add parses one file into the tree.
func (t *tree) add(name string, text []byte) error {
	file, err := parser.ParseFile(t.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	s := &source{
		path:      name,
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(file),
		lines:     strings.Count(string(text), "\n"),
		ast:       file,
	}
	for _, spec := range file.Imports {
		value, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		s.imports = append(s.imports, value)
	}
	t.files = append(t.files, s)
	return nil
}

// skipped are folders that hold nothing of ours.
func skipped(name string) bool {
	switch name {
	case "node_modules", "testdata", "bin", "dist", "build", "target", "vendor":
		return true
	}
	return strings.HasPrefix(name, ".") && name != "." && name != ".ci"
}

// walk visits every file of the checkout that is ours.
func walk(t *testing.T, root string, visit func(name string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(full string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if full != root && skipped(entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, full)
		visit(filepath.ToSlash(name), text)
		return err
	})
	require.NoError(t, err)
}

// checkout parses every Go file of the checkout.
func checkout(t *testing.T) *tree {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "go.mod"))
	all := &tree{root: root, fset: token.NewFileSet()}
	walk(t, root, func(name string, text []byte) {
		if strings.HasSuffix(name, ".go") {
			require.NoError(t, all.add(name, text))
		}
	})
	require.NotEmpty(t, all.files)
	return all
}

// planted makes a tree of the given files.
func planted(t *testing.T, files map[string]string) *tree {
	t.Helper()
	small := &tree{fset: token.NewFileSet()}
	for name, text := range files {
		require.NoError(t, small.add(name, []byte(text)))
	}
	return small
}

// own strips the module from an import of our own, "core/wal"; others give false.
func own(imported string) (string, bool) { return strings.CutPrefix(imported, module) }

// standard reports whether an import is of the standard library.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// isOrBelow reports whether name is one of the paths or lies below one.
func isOrBelow(name string, paths ...string) bool {
	for _, p := range paths {
		if name == p || strings.HasPrefix(name, p+"/") {
			return true
		}
	}
	return false
}
