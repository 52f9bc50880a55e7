package testsink

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestEnvironment(t *testing.T) {
	c, err := FromEnvironment(environment(EnvDSN, "x"))
	require.NoError(t, err)
	require.Equal(t, Config{DSN: "x", Kind: KindMirror}, c)

	c, err = FromEnvironment(environment(EnvDSN, "x", EnvKind, "both", EnvProfile, "lib", EnvWithout, "BATCH,MESSAGE", EnvSchema, "decline",
		EnvBreach, "wrong_lsn@3", EnvRequestBytes, "5", EnvPreferred, "4", EnvTransactions, "3"))
	require.NoError(t, err)
	require.Equal(t, Config{
		DSN: "x", Kind: KindBoth, Lib: true, Without: []string{"BATCH", "MESSAGE"}, DeclineDestructive: true,
		Breach: Breach{BreachWrongLSN, 3}, Limits: core.SinkLimits{RequestBytes: 5, PreferredBytes: 4, TransactionsPerBatch: 3},
	}, c)
}

func TestEnvironmentIsRefused(t *testing.T) {
	for _, pair := range [][2]string{
		{EnvDSN, ""}, {EnvKind, "mirrors"}, {EnvProfile, "x"}, {EnvWithout, "BATCHES"}, {EnvWithout, ","}, {EnvSchema, "no"},
		{EnvBreach, "x"}, {EnvBreach, "panic@0"}, {EnvBreach, "panic@"}, {EnvRequestBytes, "0"}, {EnvPreferred, "x"}, {EnvTransactions, "-1"},
	} {
		_, err := FromEnvironment(environment(pair[0], pair[1], EnvDSN, "x"))
		require.ErrorContains(t, err, pair[0], pair)
	}
}

func TestStepIsReadFromTheArmedPoints(t *testing.T) {
	t.Setenv(envFailpoints, "sink.call=kill;sink.row=kill@3")
	require.Equal(t, failpoint.Enabled, stepping())
	t.Setenv(envFailpoints, "sink.call=kill")
	require.False(t, stepping())
}

// TestPayload: the log's JSON is JSON, whatever stands in a row.
func TestPayload(t *testing.T) {
	r := &core.Relation{Schema: "s", Name: "t", Columns: []core.Column{{Name: `a"b\`}, {Name: "doc"}, {Name: "n"}, {Name: "ü"}}}
	nasty := "\"\\\x01\x1f\n\t\u2028é\U0001F600</script>"
	c := &core.Change{
		Op: core.OpUpdate, Relation: r, OldKind: core.OldKey,
		New: core.PackTuple(core.Text(nasty), core.Value{Kind: core.ValueUnchanged}, core.Null(), core.Text("")),
		Old: core.PackTuple(core.Text("k"), core.Value{Kind: core.ValueAbsent}, core.Value{Kind: core.ValueAbsent}, core.Value{Kind: core.ValueAbsent}),
	}
	var got any
	require.NoError(t, json.Unmarshal(payload(nil, c), &got))
	require.Equal(t, map[string]any{
		"new":       map[string]any{`a"b\`: nasty, "n": nil, "ü": ""},
		"old":       map[string]any{`a"b\`: "k"},
		"unchanged": []any{"doc"},
	}, got)

	require.NoError(t, json.Unmarshal(payload(nil, &core.Change{Op: core.OpTruncate, Truncate: &core.Truncate{Relations: []*core.Relation{r, r}}}), &got))
	require.Equal(t, map[string]any{"relations": []any{"s.t", "s.t"}}, got)
	require.NoError(t, json.Unmarshal(payload(nil, &core.Change{Op: core.OpMessage, Message: &core.Message{Prefix: []byte(nasty), Content: []byte{0, 255}}}), &got))
	require.Equal(t, map[string]any{"prefix": nasty, "content": "00ff"}, got)
	require.NoError(t, json.Unmarshal(payload(nil, &core.Change{Op: core.OpDelete, Relation: r, Old: c.Old}), &got))
	require.Equal(t, map[string]any{"old": map[string]any{`a"b\`: "k"}}, got)
}
