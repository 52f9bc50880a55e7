package archtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pkg is one package of a dependency closure, as the go tool lists it.
type pkg struct {
	ImportPath string
	Standard   bool
	Module     struct{ Path string }
}

// closure lists what a package brings into a program, itself included.
func closure(t *testing.T, packages ...string) []pkg {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-deps", "-json=ImportPath,Standard,Module"}, packages...)...)
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var all []pkg
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var p pkg
		require.NoError(t, decoder.Decode(&p))
		all = append(all, p)
	}
	require.NotEmpty(t, all)
	return all
}

// sinkAuthorModules is all that a program with sdk/go may contain beside the standard
// library: gRPC, protobuf, the interceptors, and what these need.
var sinkAuthorModules = []string{
	"github.com/replicant-sidecar/replicant-sidecar",
	"google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto/googleapis/rpc",
	"github.com/grpc-ecosystem/go-grpc-middleware/v2",
	"github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus",
	"github.com/prometheus/client_golang", "github.com/prometheus/client_model",
	"github.com/prometheus/common", "github.com/prometheus/procfs",
	"github.com/beorn7/perks", "github.com/cespare/xxhash/v2", "github.com/munnerz/goautoneg",
	"go.yaml.in/yaml/v2", "golang.org/x/net", "golang.org/x/sys", "golang.org/x/text",
}

// sinkAuthorRooms is all of ours that such a program may contain.
var sinkAuthorRooms = []string{"core", "internal/wire", "proto/sink/v1", "sdk/go"}

// strangers lists what a sink author's program contains and should not.
func strangers(all []pkg) []string {
	var found []string
	for _, p := range all {
		ours, mine := own(p.ImportPath)
		switch {
		case p.Standard:
		case mine && (ours == "core" || isOrBelow(ours, sinkAuthorRooms[1:]...)):
		case !mine && slices.Contains(sinkAuthorModules, p.Module.Path):
		default:
			found = append(found, p.ImportPath)
		}
	}
	return found
}

func TestSinkAuthorsGetNoDriver(t *testing.T) {
	driver := pkg{ImportPath: pgx + "/pgconn"}
	driver.Module.Path = pgx
	stage := pkg{ImportPath: module + "core/wal"}
	require.Len(t, strangers([]pkg{{ImportPath: "fmt", Standard: true}, driver, stage, {ImportPath: module + "core"}}), 2)

	require.Empty(t, strangers(closure(t, "./sdk/go")),
		"a sink in Go compiles with gRPC and protobuf alone: no Postgres driver, no stage of the engine")
}

// testOnly lists packages that have no business in a program.
func testOnly(all []pkg) []string {
	var found []string
	for _, p := range all {
		ours, mine := own(p.ImportPath)
		support := mine && isOrBelow(ours, supportDirs...)
		if support || isOrBelow(p.ImportPath, "testing", "github.com/stretchr/testify", "go.uber.org/goleak", "pgregory.net/rapid") {
			found = append(found, p.ImportPath)
		}
	}
	return found
}

func TestProgramsHaveNoTestCode(t *testing.T) {
	require.Len(t, testOnly([]pkg{{ImportPath: "testing"}, {ImportPath: module + "internal/pgembed/pgtest"}, {ImportPath: "fmt"}}), 2)

	require.DirExists(t, filepath.Join("../..", "cmd/replicant-sidecar"))
	require.Empty(t, testOnly(closure(t, "./cmd/replicant-sidecar")))
}
