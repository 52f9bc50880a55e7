package conformance

import (
	"strings"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// LogEntryOf reads an entry of the probe's contract.
func LogEntryOf(e *sinkv1.LogEntry) LogEntry {
	out := LogEntry{
		CommitLSN: e.GetCommitLsn(), Ordinal: e.GetOrdinal(),
		Op:     strings.ToLower(strings.TrimPrefix(e.GetOp().String(), "LOG_OP_")),
		Schema: e.GetSchemaName(), Table: e.GetTableName(), Columns: e.GetColumns(),
		Kinds: e.GetRow().GetKinds(), RunID: e.GetRunId(),
		Prefix: e.GetMessage().GetPrefix(), Content: e.GetMessage().GetContent(),
	}
	for i, v := range e.GetRow().GetValues() {
		out.Values = append(out.Values, Value{Null: out.Kinds[i] == letterNull, Text: v})
	}
	return out
}
