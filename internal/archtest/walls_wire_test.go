package archtest

var wireWalls = []wall{
	{
		name:    "two sides of the wire",
		reason:  "client and server are mirror images joined by internal/wire; a shortcut between them hides a wire bug",
		subject: "internal/wire",
		breaches: imports(func(s *source, imported string) bool {
			ours, mine := own(imported)
			return mine && (s.under("remotesink") && isOrBelow(ours, "sdk") || s.under("sdk") && isOrBelow(ours, "remotesink"))
		}),
		plant: map[string]string{
			"remotesink/a.go": importing("remotesink", module+"sdk/go", module+"internal/wire"),
			"sdk/go/b.go":     importing("sink", module+"remotesink"),
		},
		found: 2,
	},
	{
		name:    "the wire knows the nouns only",
		reason:  "a sink needs no stage of the engine, and no Postgres driver",
		subject: "remotesink",
		breaches: imports(func(s *source, imported string) bool {
			if !s.under("remotesink", "sdk", "internal/wire", "proto") {
				return false
			}
			ours, mine := own(imported)
			return isOrBelow(imported, pgx, pglogrepl) ||
				mine && ours != "core" && isOrBelow(ours, "core", "cmd", "internal/pgembed")
		}),
		plant: map[string]string{
			"sdk/go/a.go":        importing("sink", module+"core/pipeline", module+"core"),
			"remotesink/b.go":    importing("remotesink", pgx+"/pgconn"),
			"internal/wire/c.go": importing("wire", module+"core/assembler"),
		},
		found: 3,
	},
	{
		name:    "the sidecar's side",
		reason:  "a sink author's program must not contain the client, nor the engine a server",
		subject: "sdk/go",
		breaches: imports(func(s *source, imported string) bool {
			ours, mine := own(imported)
			return mine && (isOrBelow(ours, "sdk") && s.under("cmd", "core") ||
				isOrBelow(ours, "remotesink") && !s.under("remotesink", "cmd", "bench") && !testSupport(s))
		}),
		plant: map[string]string{
			"cmd/replicant-sidecar/a.go": importing("main", module+"sdk/go", module+"remotesink"),
			"core/pipeline/b.go":         importing("pipeline", module+"remotesink"),
		},
		found: 2,
	},
	{
		name:   "independent witness",
		reason: "who judges sinks must not share our code, or it would share our bugs",
		breaches: imports(func(s *source, imported string) bool {
			ours, mine := own(imported)
			return s.under("conformance") && mine && isOrBelow(ours, "core", "internal/wire", "remotesink", "sdk")
		}),
		plant: map[string]string{
			"conformance/a.go": importing("conformance", module+"core", module+"proto/sink/v1", module+"internal/wire"),
		},
		found: 2,
	},
}

var programWalls = []wall{
	{
		name:    "nobody imports a program",
		reason:  "only cmd sees the whole; what two programs share has a room of its own",
		subject: "cmd",
		breaches: imports(func(s *source, imported string) bool {
			ours, mine := own(imported)
			return mine && isOrBelow(ours, "cmd", "bench", "examples") && !s.under("cmd", "bench", "examples")
		}),
		plant: map[string]string{
			"core/pipeline/a.go": importing("pipeline", module+"cmd/replicant-sidecar/run"),
		},
		found: 1,
	},
	{
		name:    "the crash engine",
		reason:  "what kills programs at a call is for tests and for the judge of sinks, and shares no code with what it kills",
		subject: "internal/crash",
		breaches: imports(func(s *source, imported string) bool {
			ours, mine := own(imported)
			if s.under("internal/crash") {
				return mine && !isOrBelow(ours, "internal/crash")
			}
			return mine && isOrBelow(ours, "internal/crash") && !s.under("conformance") && !testSupport(s)
		}),
		plant: map[string]string{
			"cmd/replicant-sidecar/a.go": importing("main", module+"internal/crash"),
			"conformance/b.go":           importing("conformance", module+"internal/crash"),
			"internal/crash/c.go":        importing("crash", module+"core"),
		},
		found: 2,
	},
	{
		name:    "the private Postgres",
		reason:  "pgembed runs a server for demo, bench and tests; it is never on the road of a user's data",
		subject: "internal/pgembed",
		breaches: imports(func(s *source, imported string) bool {
			ours, mine := own(imported)
			return mine && isOrBelow(ours, "internal/pgembed") &&
				!s.under("internal/pgembed", "cmd", "bench", "internal/demo", "conformance/campaign") && !testSupport(s)
		}),
		plant: map[string]string{
			"core/wal/a.go":      importing("wal", module+"internal/pgembed"),
			"core/wal/a_test.go": importing("wal", module+"internal/pgembed/pgtest"),
		},
		found: 1,
	},
}

// supportDirs hold code that only tests and examples may use.
var supportDirs = []string{
	"core/wal/waltest", "core/sinktest", "internal/archtest", "internal/golden", "internal/model",
	"internal/sim", "internal/testsink", "internal/transcript", "internal/pgembed/pgtest", "internal/cases",
	"cmd/replicant-sidecar/internal/programtest",
}

// testSupport reports whether a file is a test or code for tests alone.
func testSupport(s *source) bool { return s.test || s.under(supportDirs...) }

var testCodeWalls = []wall{
	{
		name:    "test code stays out of programs",
		reason:  "what fakes a server or a sink must not be in a binary that somebody runs",
		subject: "internal/pgembed/pgtest",
		breaches: imports(func(s *source, imported string) bool {
			if testSupport(s) || s.under("examples") {
				return false
			}
			ours, mine := own(imported)
			switch {
			case mine:
				return isOrBelow(ours, supportDirs...)
			case isOrBelow(imported, "testing", "net/http/httptest", "github.com/stretchr/testify", "go.uber.org/goleak",
				"github.com/google/go-cmp", "pgregory.net/rapid", "github.com/rogpeppe/go-internal"):
				return !s.under("conformance")
			}
			return false
		}),
		plant: map[string]string{
			"core/pipeline/a.go":         importing("pipeline", "testing"),
			"core/pipeline/a_test.go":    importing("pipeline", "testing"),
			"cmd/replicant-sidecar/b.go": importing("main", module+"internal/testsink"),
		},
		found: 2,
	},
}
