package conformance

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

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

// valuesOf reads a row of the probe's contract.
func valuesOf(row *sinkv1.Row, columns int) ([]Value, error) {
	if len(row.GetKinds()) != columns || len(row.GetValues()) != columns {
		return nil, fmt.Errorf("a row has %d letters and %d values for %d columns", len(row.GetKinds()), len(row.GetValues()), columns)
	}
	values := make([]Value, columns)
	for i, text := range row.GetValues() {
		switch row.GetKinds()[i] {
		case letterText:
			values[i] = Value{Text: text}
		case letterNull:
			values[i] = Value{Null: true}
		case letterAbsent:
			values[i] = Value{Unknown: true}
		default:
			return nil, fmt.Errorf("a row has the letter %q", row.GetKinds()[i])
		}
	}
	return values, nil
}

// readJSON reads a message in its JSON form, and ignores what it does not know.
func readJSON(text []byte, into proto.Message) error {
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, into)
}
