package programtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// provoked names, for every halt of core/halt_codes.go, a test that runs into it: through
// the program or the pipeline where the world can be brought to it.
var provoked = map[string]string{
	"HaltConfigInvalid":        "core/pipeline TestSpillFolderIsCheckedAtTheStart",
	"HaltInvalidIdentifier":    "internal/cases TestV32PublicationNames",
	"HaltInvalidSink":          "core/pipeline TestSinkBreaches",
	"HaltBatchUnsupported":     "core/pipeline TestSinkTroublesHalt",
	"HaltMessagesUnsupported":  "core/pipeline TestMessagesNeedTheirCapability",
	"HaltFencingRequired":      "core/pipeline TestLibFencingRequired",
	"HaltGoForwardRequired":    "core/pipeline TestSourceFaults",
	"HaltWALLevel":             "core/pipeline TestWrongWALLevel",
	"HaltServerUnsupported":    "core/pipeline TestSourceTroublesHalt",
	"HaltSourceRights":         "core/pipeline TestSourceFaults",
	"HaltSourcePooler":         "core/pipeline TestSourceTroublesHalt",
	"HaltSourceRefused":        "core/pipeline TestSourceTroublesHalt",
	"HaltPublicationMissing":   "core/pipeline TestSourceFaults",
	"HaltSlotsExhausted":       "core/pipeline TestSourceTroublesHalt",
	"HaltSlotPlugin":           "core/pipeline TestSourceFaults",
	"HaltSlotDatabase":         "core/pipeline TestSourceFaults",
	"HaltSlotTwoPhase":         "core/pipeline TestSourceFaults",
	"HaltSlotSynced":           "core/pipeline TestSyncedSlotHaltsUntilPromotion",
	"HaltSlotInvalidated":      "core/pipeline TestInvalidatedSlot",
	"HaltSlotMissing":          "core/pipeline TestSourceFaults",
	"HaltSlotAhead":            "core/pipeline TestSourceFaults",
	"HaltSourceBehind":         "core/pipeline TestSourceFaults",
	"HaltTimelineChanged":      "core/pipeline TestWhatIsBehindAnAddressStaysTheSame",
	"HaltSourceMismatch":       "core/pipeline TestWhatIsBehindAnAddressStaysTheSame",
	"HaltCheckpointMissing":    "core/pipeline TestSourceFaults",
	"HaltCheckpointUnreadable": "core/pipeline TestSinkTroublesHalt",
	"HaltStoreUnavailable":     "core/pipeline TestStoreOutageBound",
	"HaltStoreInvalid":         "core/pipeline TestStoreChangedWhileRunning",
	"HaltStoreRegress":         "core/pipeline TestStoreRestored",
	"HaltMalformedStream":      "core/pipeline TestStreamTroublesHalt",
	"HaltUnsupportedMessage":   "core/pipeline TestStreamTroublesHalt",
	"HaltBadFraming":           "core/pipeline TestStreamTroublesHalt",
	"HaltUnknownRelation":      "core/pipeline TestStreamTroublesHalt",
	"HaltSchemaDestructive":    "core/pipeline TestSchemaHaltComesAgain",
	"HaltSchemaRefused":        "core/pipeline TestSchemaChangeIsToldAtItsBorder",
	"HaltValueTooLarge":        "core/pipeline TestSinkBreaches",
	"HaltTransactionTooLarge":  "core/pipeline TestSinkBreaches",
	"HaltSpillExhausted":       "core/pipeline TestSpillBoundHalts",
	"HaltSpillFailed":          "core/pipeline TestX08FullDisk",
	"HaltSinkContract":         "core/pipeline TestSinkBreaches",
	"HaltSinkRejected":         "core/pipeline TestSinkBreaches",
	"HaltSinkFailed":           "core/pipeline TestSinkBreaches",
	"HaltSinkUnknown":          "core/pipeline TestSinkBreaches",
	"HaltSinkReplaced":         "core/pipeline TestWhatIsBehindAnAddressStaysTheSame",
	"HaltSinkUnavailable":      "core/pipeline TestSinkTroublesHalt",
	"HaltSinkUnauthorized":     "core/pipeline TestSinkTroublesHalt",
	"HaltCapabilityLost":       "core/pipeline TestWhatIsBehindAnAddressStaysTheSame",
	"HaltIdentityRejected":     "core/pipeline TestSinkTroublesHalt",
	"HaltOriginRejected":       "core/pipeline TestSinkTroublesHalt",
	"HaltValueUnrepresentable": "core/pipeline TestSinkBreaches",
	"HaltFenced":               "core/pipeline TestOvertakenWriterIsFenced",
	"HaltPanic":                "core/pipeline TestSinkTroublesHalt",
	// It stands for a bug of ours, so only the guard itself can be run into.
	"HaltInvariant": "core/wal TestBreachesOfOrderHalt",
}

// notYet are halts of what is not whole yet: initial copies and prepared transactions. A
// code leaves this list with the test that provokes it.
var notYet = map[string]bool{
	"HaltSnapshotUnsupported":  true,
	"HaltSnapshotIncomplete":   true,
	"HaltSnapshotLimit":        true,
	"HaltProgressInvalid":      true,
	"HaltPublicationConflict":  true,
	"HaltConflictingStartMode": true, // a snapshot beside --go-forward-only
	"HaltTwoPhaseUnsupported":  true,
}

const root = "../../../../"

// TestEveryHaltIsProvoked: a halt that no test runs into is a guess.
func TestEveryHaltIsProvoked(t *testing.T) {
	codes := haltCodes(t)
	require.Greater(t, len(codes), 50)
	for name := range codes {
		place, found := provoked[name]
		switch {
		case found && notYet[name]:
			t.Errorf("%s is in both lists", name)
		case found:
			named(t, name, codes[name], place)
		case !notYet[name]:
			t.Errorf("%s: name the test that provokes it", name)
		}
	}
	for name := range provoked {
		require.Contains(t, codes, name, "no such code")
	}
}

// named looks that a test exists, and that the file it stands in speaks of the code.
func named(t *testing.T, name, code, place string) {
	t.Helper()
	dir, test, _ := strings.Cut(place, " ")
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(text), "\nfunc "+test+"(t *testing.T)") {
			if !strings.Contains(string(text), "."+name) && !strings.Contains(string(text), `"`+code+`"`) {
				t.Errorf("%s: %s does not mention it", name, place)
			}
			return
		}
	}
	t.Errorf("%s: there is no %s", name, place)
}

// haltCodes are the constants of core/halt_codes.go with their codes.
func haltCodes(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), root+"core/halt_codes.go", nil, 0)
	require.NoError(t, err)
	codes := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			codes[spec.Names[0].Name] = strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`)
		}
		return true
	})
	return codes
}
