package sinkv1_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// thousands writes 3145728 as 3,145,728, the way page and comments do.
func thousands(n int) string {
	digits := fmt.Sprint(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

func TestLimitsAreTheNumbersThatAreWritten(t *testing.T) {
	page, text := read(t, docPath), read(t, "types.proto")
	for id, number := range map[string]int{
		"L-101": sinkv1.DefaultMaxRequestBytes,
		"L-102": sinkv1.DefaultPreferredRequestBytes,
		"L-103": sinkv1.MaxReceiveBytes,
		"L-104": sinkv1.MaxRelations,
		"L-105": sinkv1.MaxColumns,
		"L-106": sinkv1.MaxProgressTokenBytes,
		"L-107": sinkv1.MaxResumeStateBytes,
		"L-108": sinkv1.MaxStatusMessageBytes,
		"L-109": sinkv1.MaxPreparedTokenBytes,
	} {
		row := regexp.MustCompile(`(?m)^\| \*\*` + id + `\*\* \|.*$`).FindString(page)
		require.Contains(t, row, thousands(number), id)

		_, rule, found := strings.Cut(text, "//   "+id+"  ")
		require.True(t, found, id)
		if end := strings.Index(rule, "//   L-"); end >= 0 {
			rule = rule[:end]
		}
		require.Contains(t, rule, thousands(number), id)
	}
	require.Contains(t, regexp.MustCompile(`(?m)^\| \*\*L-109\*\*.*$`).FindString(page), fmt.Sprint(sinkv1.GIDBytes))
}

// moving says which requests name a position to store; the others of the writing
// calls must not be able to.
var moving = map[string]bool{
	"HandleTransactionRequest":      true,
	"HandleBatchRequest":            true,
	"HandleMessageRequest":          true,
	"HandleSnapshotCompleteRequest": true,
	"HandleSchemaChangeRequest":     false,
	"HandleSnapshotRequest":         false,
}

func TestWritingRequestsHaveTheSameHead(t *testing.T) {
	messages := sinkv1.File_sink_v1_sink_proto.Messages()
	for name, moves := range moving {
		request := messages.ByName(protoreflect.Name(name))
		require.NotNil(t, request, name)
		fields := request.Fields()
		require.EqualValues(t, "context", fields.ByNumber(1).Name(), name)
		require.EqualValues(t, "expected_checkpoint", fields.ByNumber(2).Name(), name)
		require.True(t, fields.ByNumber(2).HasPresence(), name)

		answer := messages.ByName(protoreflect.Name(strings.TrimSuffix(name, "Request") + "Response"))
		if !moves {
			require.Nil(t, fields.ByName("checkpoint_lsn"), name)
			require.Nil(t, answer.Fields().ByName("checkpoint_lsn"), name)
			require.True(t, request.ReservedNames().Has("checkpoint_lsn"), name)
			continue
		}
		require.EqualValues(t, "checkpoint_lsn", fields.ByNumber(3).Name(), name)
		require.True(t, fields.ByNumber(3).HasPresence(), name)
		require.EqualValues(t, "checkpoint_lsn", answer.Fields().ByNumber(1).Name(), name)
		require.True(t, answer.Fields().ByNumber(1).HasPresence(), name)
	}
}

// A position of 0 and "never" are two things, at both ends of 64 bits.
func TestPositionsKeepPresenceAndAllBits(t *testing.T) {
	for _, position := range []*uint64{nil, proto.Uint64(0), proto.Uint64(1<<53 + 1), proto.Uint64(1<<64 - 1)} {
		wire, err := proto.Marshal(&sinkv1.CheckpointResponse{Position: position})
		require.NoError(t, err)
		var got sinkv1.CheckpointResponse
		require.NoError(t, proto.Unmarshal(wire, &got))
		require.Equal(t, position, got.Position)
	}
}

func TestZeroIsInvalidInEveryEnumButOne(t *testing.T) {
	for _, file := range []protoreflect.FileDescriptor{
		sinkv1.File_sink_v1_types_proto, sinkv1.File_sink_v1_two_phase_proto,
	} {
		for i := range file.Enums().Len() {
			enum := file.Enums().Get(i)
			zero := string(enum.Values().ByNumber(0).Name())
			if enum.Name() == "OldRowKind" {
				require.Equal(t, "OLD_ROW_KIND_NONE", zero)
				continue
			}
			require.True(t, strings.HasSuffix(zero, "_UNSPECIFIED"), zero)
		}
	}
}

// Numbers of what v1 leaves out cannot be given to something else.
func TestLeftOutOfV1IsReserved(t *testing.T) {
	require.True(t, sinkv1.Capability(0).Descriptor().ReservedNames().Has("CAPABILITY_BINARY_VALUES"))
	for message, names := range map[protoreflect.Message][]protoreflect.Name{
		new(sinkv1.HandleBatchResponse).ProtoReflect():           {"declined"},
		new(sinkv1.HandleTransactionResponse).ProtoReflect():     {"declined"},
		new(sinkv1.HandleBatchRequest).ProtoReflect():            {"partial_commit_lsn", "partial_changes"},
		new(sinkv1.HandleLargeTransactionRequest).ProtoReflect(): {"value_chunk"},
		new(sinkv1.Limits).ProtoReflect():                        {"max_concurrent_calls", "max_transaction_bytes"},
	} {
		for _, name := range names {
			require.True(t, message.Descriptor().ReservedNames().Has(name), "%s of %s", name, message.Descriptor().Name())
		}
	}
}
