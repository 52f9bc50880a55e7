package archtest

import "strings"

const (
	pgx       = "github.com/jackc/pgx/v5"
	pglogrepl = "github.com/jackc/pglogrepl"
	grpc      = "google.golang.org/grpc"
	protobuf  = "google.golang.org/protobuf"
)

// stages are the rooms that meet in core/pipeline only.
var stages = []string{"core/wal", "core/pgoutput", "core/assembler", "core/checkpoint", "core/snapshot"}

var coreWalls = []wall{
	{
		name:    "nouns",
		reason:  "core is what everybody imports; a sink author must not pull in a driver or gRPC with it",
		subject: "core/sink.go",
		breaches: imports(func(s *source, imported string) bool {
			return s.dir() == "core" && !standard(imported)
		}),
		plant: map[string]string{
			"core/a.go":     importing("core", "fmt", pgx, module+"core/wal"),
			"core/wal/b.go": importing("wal", pgx),
		},
		found: 2,
	},
	{
		name:    "engine without gRPC",
		reason:  "the engine runs in-process too; only remotesink and sdk/go know the wire",
		subject: "core",
		breaches: imports(func(s *source, imported string) bool {
			if !s.under("core") {
				return false
			}
			ours, mine := own(imported)
			return isOrBelow(imported, grpc, protobuf, "github.com/grpc-ecosystem") ||
				mine && isOrBelow(ours, "proto", "remotesink", "sdk", "conformance", "cmd", "internal/wire")
		}),
		plant: map[string]string{
			"core/pipeline/a.go": importing("pipeline", grpc+"/codes", module+"proto/sink/v1", module+"core"),
			"remotesink/b.go":    importing("remotesink", grpc),
		},
		found: 2,
	},
	{
		name:    "one replication client",
		reason:  "every place that speaks the replication protocol can confirm a position; there is one",
		subject: "core/wal",
		breaches: imports(func(s *source, imported string) bool {
			return isOrBelow(imported, pglogrepl) && !s.under("core/wal", "bench")
		}),
		plant: map[string]string{
			"core/pgoutput/a.go":      importing("pgoutput", pglogrepl),
			"core/pgoutput/a_test.go": importing("pgoutput", pglogrepl),
			"core/wal/b.go":           importing("wal", pglogrepl),
		},
		found: 1,
	},
	{
		name:    "driver",
		reason:  "inside the engine only the rooms that talk to Postgres know the driver",
		subject: "core/wal",
		breaches: imports(func(s *source, imported string) bool {
			return isOrBelow(imported, pgx) && s.under("core") &&
				!s.under("core/wal", "core/snapshot") && !checkpointStore(s)
		}),
		plant: map[string]string{
			"core/pipeline/a.go":       importing("pipeline", pgx+"/pgconn"),
			"core/checkpoint/b.go":     importing("checkpoint", pgx),
			"core/checkpoint/store.go": importing("checkpoint", pgx),
			"core/wal/c.go":            importing("wal", pgx),
		},
		found: 2,
	},
	{
		name:    "stages",
		reason:  "stages meet in core/pipeline alone, so that none can confirm, retry or skip behind its back",
		subject: "core/assembler",
		breaches: imports(func(s *source, imported string) bool {
			ours, mine := own(imported)
			if !mine || !s.under(stages...) || !isOrBelow(ours, stages...) || s.under(ours) {
				return false
			}
			if s.under("core/snapshot") && isOrBelow(ours, "core/snapshot") {
				return false // one stage of three folders
			}
			return !(s.under("core/assembler") && ours == "core/pgoutput") && !testSupport(s)
		}),
		plant: map[string]string{
			"core/wal/a.go":       importing("wal", module+"core/pgoutput", module+"core"),
			"core/pgoutput/b.go":  importing("pgoutput", module+"core/assembler"),
			"core/assembler/c.go": importing("assembler", module+"core/pgoutput", module+"core/checkpoint"),
		},
		found: 3,
	},
	{
		name:    "settings",
		reason:  "one room reads flags and environment, so that every setting is listed and checked once",
		subject: "core/config",
		breaches: func(t *tree) []string {
			found := imports(func(s *source, imported string) bool {
				if s.under("core/config") || !s.under("core") {
					return false
				}
				return imported == "flag" || strings.HasPrefix(imported, "github.com/spf13/") ||
					strings.HasPrefix(imported, "github.com/knadh/koanf")
			})(t)
			return append(found, calls(t, func(s *source) bool {
				return s.under("core") && !s.under("core/config")
			}, "os", "Getenv", "LookupEnv", "Environ", "ExpandEnv")...)
		},
		plant: map[string]string{
			"core/wal/a.go":    importing("wal", "flag"),
			"core/wal/b.go":    "package wal\n\nimport \"os\"\n\nvar _ = os.Getenv(\"PGHOST\")\n",
			"core/config/c.go": "package config\n\nimport \"os\"\n\nvar _ = os.Getenv(\"PGHOST\")\n",
		},
		found: 2,
	},
	{
		name:    "settings stay at the door",
		reason:  "rooms take their own small options; only the program knows the whole configuration",
		subject: "core/config",
		breaches: imports(func(s *source, imported string) bool {
			ours, mine := own(imported)
			return mine && isOrBelow(ours, "core/config") && !s.under("core/config", "cmd")
		}),
		plant: map[string]string{
			"core/pipeline/a.go":         importing("pipeline", module+"core/config"),
			"cmd/replicant-sidecar/b.go": importing("main", module+"core/config"),
		},
		found: 1,
	},
}

// checkpointStore reports whether the file is a store of core/checkpoint, the part of it
// that does I/O; the rest of the room is pure.
func checkpointStore(s *source) bool {
	return s.dir() == "core/checkpoint" && strings.HasPrefix(s.path, "core/checkpoint/store") ||
		s.under("core/checkpoint/store", "core/checkpoint/pgstore", "core/checkpoint/filestore")
}
