package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
)

// confirmers are the ways in which the libraries we use tell Postgres a position.
var confirmers = []string{
	"SendStandbyStatusUpdate", "StandbyStatusUpdate", "StandbyStatusUpdateByteID", "NewStandbyStatusUpdate",
}

// statusFile is the one place that confirms.
const statusFile = "core/wal/status.go"

// mainForOthers is the main function that the SDK offers: a sink author's program is that
// one call.
const mainForOthers = "sdk/go/main.go"

// stageFile ends processes that never were the program: the crash engine's own, which are
// this binary started again.
const stageFile = "internal/crash/stage_linux.go"

// documentHosts may be named in a program's text for people to read; nothing is fetched
// from them.
var documentHosts = []string{"www.postgresql.org", "github.com", "pkg.go.dev", "json-schema.org", "grpc.io"}

var hostInText = regexp.MustCompile(`https?://([A-Za-z0-9.-]+)`)

var callWalls = []wall{
	{
		name:    "one place confirms",
		reason:  "a position that reaches Postgres too early is lost data; one function can send it, and it sends the durable one",
		subject: statusFile,
		breaches: func(t *tree) []string {
			var found []string
			for _, s := range t.files {
				if s.path == statusFile || testSupport(s) || s.under("bench") {
					continue
				}
				found = append(found, confirms(t, s)...)
			}
			return found
		},
		plant: map[string]string{
			"core/wal/conn.go": `package wal

import "github.com/jackc/pglogrepl"

func answer() { _ = pglogrepl.SendStandbyStatusUpdate; _ = []byte{'r'} }
`,
			"core/wal/status.go": "package wal\n\nvar kind = 'r'\n",
		},
		found: 2,
	},
	{
		name:    "libraries return",
		reason:  "only a program may end the process or take its signals; what else does would skip the drain",
		subject: "cmd",
		breaches: func(t *tree) []string {
			library := func(s *source) bool {
				return !s.main() && !s.under("cmd") && !testSupport(s) && s.path != mainForOthers && s.path != stageFile
			}
			found := append(calls(t, library, "os", "Exit"), calls(t, library, "syscall", "Exit")...)
			found = append(found, calls(t, library, "log", "Fatal", "Fatalf", "Fatalln")...)
			return append(found, calls(t, library, "os/signal")...)
		},
		plant: map[string]string{
			"core/pipeline/run.go": `package pipeline

import (
	"os"
	"os/signal"
	"syscall"
)

func stop() { signal.Ignore(); os.Exit(1); syscall.Exit(1) }
`,
			"cmd/replicant-sidecar/main.go": "package main\n\nimport \"os\"\n\nfunc main() { os.Exit(0) }\n",
		},
		found: 3,
	},
	{
		name:    "one file names download addresses",
		reason:  "who reviews what is fetched from the network reads one file",
		subject: "internal/pgembed/source.go",
		breaches: func(t *tree) []string {
			var found []string
			for _, s := range t.files {
				if s.path == "internal/pgembed/source.go" || s.generated || testSupport(s) {
					continue
				}
				found = append(found, addresses(t, s)...)
			}
			return found
		},
		plant: map[string]string{
			"internal/pgembed/cache.go": "package pgembed\n\n// See https://example.org.\nvar from = \"https://downloads.example.org/pg\"\n",
			"core/halt_texts.go":        "package core\n\nvar text = \"see https://www.postgresql.org/docs/\"\n",
		},
		found: 1,
	},
	{
		name:    "recover has a reason",
		reason:  "a swallowed panic goes on with broken state; goroutines are caught at their top and become a halt",
		subject: "core",
		breaches: func(t *tree) []string {
			var found []string
			for _, s := range t.files {
				if testSupport(s) || !s.under("core") || slices.Contains(recoverers, s.path) {
					continue
				}
				ast.Inspect(s.ast, func(node ast.Node) bool {
					call, ok := node.(*ast.CallExpr)
					if ok {
						if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "recover" {
							found = append(found, t.at(s, node)+" recovers")
						}
					}
					return true
				})
			}
			return found
		},
		plant: map[string]string{"core/assembler/a.go": "package assembler\n\nfunc f() { defer func() { _ = recover() }() }\n"},
		found: 1,
	},
}

// recoverers are the tops of the engine's goroutines.
var recoverers = []string{"core/pipeline/run.go"}

// confirms finds what can write a status update: the libraries' own calls, and inside
// core the message's type byte.
func confirms(t *tree, s *source) []string {
	var found []string
	ast.Inspect(s.ast, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SelectorExpr:
			if slices.Contains(confirmers, n.Sel.Name) {
				found = append(found, t.at(s, node)+" uses "+n.Sel.Name)
			}
		case *ast.BasicLit:
			if n.Kind == token.CHAR && n.Value == "'r'" && s.under("core/wal") {
				found = append(found, t.at(s, node)+" has the type byte of a status update")
			}
		}
		return true
	})
	return found
}

// addresses finds string literals with a web address that is not documentation.
func addresses(t *tree, s *source) []string {
	var found []string
	ast.Inspect(s.ast, func(node ast.Node) bool {
		literal, ok := node.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			return true
		}
		for _, match := range hostInText.FindAllStringSubmatch(text, -1) {
			if host := match[1]; !slices.Contains(documentHosts, host) && host != "127.0.0.1" && host != "localhost" {
				found = append(found, t.at(s, node)+" names "+host)
			}
		}
		return true
	})
	return found
}
