package archtest

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// vagueNames say nothing about what is in a folder.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "types", "shared", "lib", "pkg"}

// otherWords are names that other systems use for what has a name of its own here; see
// the glossary in CONTRIBUTING.md.
var otherWords = regexp.MustCompile(`(^|[a-z0-9])(Offset|TableID|Event|Events|Destination|Consumer)([A-Z0-9]|$)`)

var textWalls = []wall{
	{
		name:   "packages introduce themselves",
		reason: "a newcomer reads the package comment first: what it does, what it promises",
		breaches: func(t *tree) []string {
			told, seen := map[string]bool{}, map[string]bool{}
			for _, s := range t.files {
				if s.test {
					continue
				}
				seen[s.dir()] = true
				if s.ast.Doc != nil && len(s.ast.Doc.Text()) > 20 {
					told[s.dir()] = true
				}
			}
			var found []string
			for dir := range seen {
				if !told[dir] {
					found = append(found, dir+" has no package comment")
				}
			}
			slices.Sort(found)
			return found
		},
		plant: map[string]string{
			"core/a.go":     "package core\n",
			"core/wal/b.go": "// Package wal reads the replication stream.\npackage wal\n",
		},
		found: 1,
	},
	{
		name:   "folders are named for their subject",
		reason: "a drawer for everything grows until everything depends on it",
		breaches: func(t *tree) []string {
			var found []string
			for _, s := range t.files {
				for part := range strings.SplitSeq(s.dir(), "/") {
					if slices.Contains(vagueNames, part) && !slices.Contains(found, s.dir()) {
						found = append(found, s.dir())
					}
				}
			}
			return found
		},
		plant: map[string]string{"core/util/a.go": "package util\n", "core/wal/b.go": "package wal\n"},
		found: 1,
	},
	{
		name:   "one word for one thing",
		reason: "the glossary has LSN or position, relation, change, sink; two words for one thing become two things",
		breaches: func(t *tree) []string {
			var found []string
			for _, s := range t.files {
				if s.generated || s.test || !s.under("core", "remotesink", "sdk") {
					continue
				}
				for _, name := range exported(s) {
					if otherWords.MatchString(name.Name) {
						found = append(found, t.at(s, name)+" exports "+name.Name)
					}
				}
			}
			return found
		},
		plant: map[string]string{
			"core/a.go": "package core\n\ntype Position struct{ CommitOffset int }\n\nfunc Prevent() {}\n\ntype Event int\n",
		},
		found: 2,
	},
	{
		name:   "packages are named after their folder",
		reason: "an import that reads differently from its use misleads; sdk/go is the one exception, as go is a keyword",
		breaches: func(t *tree) []string {
			var found []string
			for _, s := range t.files {
				name, folder := strings.TrimSuffix(s.ast.Name.Name, "_test"), path.Base(s.dir())
				if s.main() || s.generated || name == folder || s.under("sdk/go", "proto") || s.dir() == "." {
					continue
				}
				found = append(found, s.path+" is of package "+name)
			}
			return found
		},
		plant: map[string]string{"core/wal/a.go": "package replication\n", "core/wal/b_test.go": "package wal_test\n"},
		found: 1,
	},
}

// exported lists the exported names that a file declares: types, functions, methods,
// constants, variables and fields.
func exported(s *source) []*ast.Ident {
	var names []*ast.Ident
	keep := func(idents ...*ast.Ident) {
		for _, ident := range idents {
			if ident.IsExported() {
				names = append(names, ident)
			}
		}
	}
	ast.Inspect(s.ast, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			keep(n.Name)
			return false
		case *ast.TypeSpec:
			keep(n.Name)
		case *ast.ValueSpec:
			keep(n.Names...)
		case *ast.Field:
			keep(n.Names...)
		}
		return true
	})
	return names
}
