package failpoint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const self = "github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"

// site is one call of Hit.
type site struct {
	constant string // ReadChange
	dir      string
	at       string
	// used is false where the error is thrown away or nothing takes it.
	used bool
}

// sitesIn lists the calls of Hit in a file. Arguments that are not one of our constants
// are a problem, since no check could follow them.
func sitesIn(name string, text []byte) (sites []site, problems []string) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, []string{err.Error()}
	}
	if !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"`+self+`"` }) {
		return nil, nil
	}
	unused := map[ast.Node]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ExprStmt:
			unused[n.X] = true
		case *ast.AssignStmt:
			if id, ok := n.Lhs[0].(*ast.Ident); ok && id.Name == "_" {
				unused[n.Rhs[0]] = true
			}
		case *ast.CallExpr:
			if called := selected(n.Fun); called != "Hit" {
				return true
			}
			s := site{dir: path.Dir(name), at: fmt.Sprintf("%s:%d", name, fset.Position(n.Pos()).Line), used: !unused[n]}
			if s.constant = selected(n.Args[0]); s.constant == "" {
				problems = append(problems, s.at+" does not name its point")
			}
			sites = append(sites, s)
		}
		return true
	})
	return sites, problems
}

// selected is X of failpoint.X, or "".
func selected(e ast.Expr) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if id, ok := s.X.(*ast.Ident); !ok || id.Name != "failpoint" {
		return ""
	}
	return s.Sel.Name
}

// constants maps the names of points.go to their points.
func constants(t *testing.T) map[string]Point {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "points.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	all := map[string]Point{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == "Point" {
			all[spec.Names[0].Name] = Point(strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`))
		}
		return true
	})
	return all
}

// wrong compares the points with their call sites. built says whether a room exists.
func wrong(points map[string]Point, list []Declaration, sites []site, built func(room string) bool) []string {
	var found []string
	for _, s := range sites {
		i := slices.IndexFunc(list, func(d Declaration) bool { return d.Point == points[s.constant] })
		switch {
		case i < 0:
			found = append(found, s.at+": "+s.constant+" is not declared")
		case list[i].Room != s.dir:
			found = append(found, s.at+": "+s.constant+" belongs to "+list[i].Room)
		case list[i].Fails != s.used:
			found = append(found, fmt.Sprintf("%s: %s is declared with Fails %t, the error is used: %t", s.at, s.constant, list[i].Fails, s.used))
		}
	}
	for _, d := range list {
		called := slices.ContainsFunc(sites, func(s site) bool { return points[s.constant] == d.Point })
		if !called && built(d.Room) {
			found = append(found, string(d.Point)+" has no call site")
		}
	}
	return found
}

func TestPointsHaveCallSites(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	var sites []site
	err = filepath.WalkDir(root, func(full string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if full != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules" || entry.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(root, full)
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		found, problems := sitesIn(filepath.ToSlash(name), text)
		require.Empty(t, problems)
		sites = append(sites, found...)
		return nil
	})
	require.NoError(t, err)
	require.Empty(t, wrong(constants(t), declared, sites, func(room string) bool {
		_, err := os.Stat(filepath.Join(root, room))
		return err == nil
	}))
}

func TestCallSiteCheckSees(t *testing.T) {
	const text = `package wal

import "` + self + `"

func f() error {
	failpoint.Hit(failpoint.A)
	_ = failpoint.Hit(failpoint.B)
	if err := failpoint.Hit(failpoint.C); err != nil {
		return err
	}
	return failpoint.Hit(failpoint.Gone)
}

func g(p failpoint.Point) error { return failpoint.Hit(p) }
`
	sites, problems := sitesIn("core/wal/a.go", []byte(text))
	require.Len(t, sites, 5)
	require.Equal(t, []string{"core/wal/a.go:14 does not name its point"}, problems)

	points := map[string]Point{"A": "a", "B": "b", "C": "c", "D": "d", "E": "e"}
	list := []Declaration{
		{Point: "a", Room: "core/wal", Fails: true},
		{Point: "b", Room: "core/wal"},
		{Point: "c", Room: "core/pipeline", Fails: true},
		{Point: "d", Room: "core/wal"},
		{Point: "e", Room: "not/yet"},
	}
	require.Equal(t, []string{
		"core/wal/a.go:6: A is declared with Fails true, the error is used: false",
		"core/wal/a.go:8: C belongs to core/pipeline",
		"core/wal/a.go:11: Gone is not declared",
		"d has no call site",
	}, wrong(points, list, sites[:4], func(room string) bool { return room != "not/yet" }))
}
