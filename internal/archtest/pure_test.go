package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// pureFiles are the parts that decide. They see no clock, goroutine, channel or I/O, so
// that every decision is a function of what came in and can be tested as a table.
var pureFiles = []string{
	"core/pgoutput/*.go",
	"core/assembler/*.go",
	"core/checkpoint/ledger*.go",
	"core/checkpoint/decide*.go",
	"core/checkpoint/matrix*.go",
	"core/snapshot/incremental/*.go",
	"core/pipeline/machine*.go",
	"core/pipeline/batch*.go",
	"core/pipeline/gate*.go",
	"core/pipeline/doubt*.go",
}

// impureImports do I/O, wait, or know the time of their own accord.
var impureImports = []string{
	"context", "log", "net", "os", "os/exec", "os/signal", "sync", "sync/atomic", "runtime",
	"math/rand", "math/rand/v2", "crypto/rand", "syscall", "testing",
	module + "internal/failpoint", // a decision that can be told to die is no function
}

var clockFuncs = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

func pure(s *source) bool {
	return !s.test && slices.ContainsFunc(pureFiles, func(pattern string) bool {
		ok, err := path.Match(pattern, s.path)
		return ok && err == nil
	})
}

var pureWalls = []wall{
	{
		name:    "decisions are pure",
		reason:  "what decides over somebody's data sees no clock, goroutine, channel or I/O; the shell around it does",
		subject: "core/pipeline/machine.go",
		breaches: func(t *tree) []string {
			found := imports(func(s *source, imported string) bool {
				return pure(s) && isOrBelow(imported, impureImports...)
			})(t)
			found = append(found, calls(t, pure, "time", clockFuncs...)...)
			for _, s := range t.files {
				if pure(s) {
					found = append(found, concurrency(t, s)...)
				}
			}
			return found
		},
		plant: map[string]string{
			"core/pipeline/machine.go": `package pipeline

import (
	"log/slog"
	"time"
)

var started = time.Now()
var waiting chan int

func run() {
	go slog.Info("x")
	select {}
}
`,
			"core/checkpoint/ledger.go": "package checkpoint\n\nimport \"time\"\n\nvar Interval = time.Second\n",
			"core/assembler/rows.go":    importing("assembler", module+"internal/failpoint"),
			"core/pipeline/pump.go":     "package pipeline\n\nimport \"time\"\n\nvar begun = time.Now()\n",
		},
		found: 6,
	},
	{
		name:    "the list of pure files is true",
		reason:  "a pattern that matches nothing guards nothing; rename it with the file",
		subject: "core/assembler",
		breaches: func(t *tree) []string {
			var found []string
			for _, room := range []string{"core/pgoutput", "core/assembler", "core/checkpoint", "core/snapshot/incremental", "core/pipeline"} {
				has := slices.ContainsFunc(t.files, func(s *source) bool { return pure(s) && s.dir() == room })
				if !has {
					found = append(found, "no pure file in "+room)
				}
			}
			return found
		},
		plant: map[string]string{"core/pgoutput/decode.go": "package pgoutput\n"},
		found: 4,
	},
}

// concurrency finds go statements, channels and selects.
func concurrency(t *tree, s *source) []string {
	var found []string
	ast.Inspect(s.ast, func(node ast.Node) bool {
		what := ""
		switch node.(type) {
		case *ast.GoStmt:
			what = "starts a goroutine"
		case *ast.ChanType:
			what = "has a channel"
		case *ast.SelectStmt:
			what = "selects"
		case *ast.SendStmt:
			what = "sends on a channel"
		}
		if what != "" {
			found = append(found, t.at(s, node)+" "+what)
		}
		return true
	})
	return found
}

// calls finds uses of functions of a package, whatever name it was imported under.
func calls(t *tree, where func(*source) bool, pkg string, names ...string) []string {
	var found []string
	for _, s := range t.files {
		if s.test || !where(s) {
			continue
		}
		local := localName(s, pkg)
		if local == "" {
			continue
		}
		ast.Inspect(s.ast, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			ident, ok := selector.X.(*ast.Ident)
			if ok && ident.Name == local && (len(names) == 0 || slices.Contains(names, selector.Sel.Name)) {
				found = append(found, t.at(s, node)+" uses "+pkg+"."+selector.Sel.Name)
			}
			return true
		})
	}
	return found
}

// localName is the name under which a file knows an import, or "".
func localName(s *source, imported string) string {
	for i, spec := range s.ast.Imports {
		if s.imports[i] != imported {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return imported[strings.LastIndex(imported, "/")+1:]
	}
	return ""
}
