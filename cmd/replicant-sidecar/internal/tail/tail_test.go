package tail

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

var odd = &core.Relation{Schema: "s", Name: "t\xff", Columns: []core.Column{{Name: "a"}, {Name: "b\xfe"}, {Name: "c"}}}

func unit(position core.LSN, rows ...core.Tuple) *core.Unit {
	t := core.Transaction{XID: 7, CommitLSN: position - 8, EndLSN: position, CommitTime: time.Unix(1, 5000).UTC(), Origin: "o"}
	for _, row := range rows {
		t.Changes = append(t.Changes, core.Change{Op: core.OpInsert, Relation: odd, New: row})
	}
	return &core.Unit{Checkpoint: position, Transactions: []core.Transaction{t}}
}

// Bytes that are no UTF-8 come back exactly; NULL, unchanged and absent stay apart.
func TestJSONIsReversible(t *testing.T) {
	var out bytes.Buffer
	s := New(Options{Out: &out, Print: JSON{}})
	bytesIn := []byte("\xff\x00'\"\\")
	ack, err := s.HandleTransaction(t.Context(), unit(1<<63, core.PackTuple(
		core.Value{Kind: core.ValueText, Text: bytesIn}, core.Value{Kind: core.ValueUnchanged}, core.Value{Kind: core.ValueAbsent})))
	require.NoError(t, err)
	require.Equal(t, core.LSN(1<<63), ack.Checkpoint)
	var got struct {
		End     string `json:"end_lsn"`
		Text    string `json:"end_lsn_text"`
		Time    string `json:"commit_time"`
		Origin  string
		Changes []struct {
			Table string
			New   map[string]map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &got), out.String())
	require.Equal(t, "9223372036854775808", got.End)
	require.Equal(t, "80000000/0", got.Text)
	require.Equal(t, "1970-01-01T00:00:01.000005Z", got.Time)
	require.Equal(t, "o", got.Origin)
	require.Equal(t, `t\xff`, got.Changes[0].Table)
	row := got.Changes[0].New
	back, err := base64.StdEncoding.DecodeString(row["a"]["base64"].(string))
	require.NoError(t, err)
	require.Equal(t, bytesIn, back)
	require.Equal(t, map[string]any{"unchanged": true}, row[`b\xfe`])
	require.NotContains(t, row, "c")
}

func TestTextEscapesWhatCouldSteerATerminal(t *testing.T) {
	var out bytes.Buffer
	s := New(Options{Out: &out, Print: Text{}})
	_, err := s.HandleTransaction(t.Context(), unit(16, core.PackTuple(core.Text("\x1b]0;x\a\xff"), core.Null(), core.Text("ü"))))
	require.NoError(t, err)
	require.Contains(t, out.String(), `INSERT s."t\xff" a="\x1b]0;x\a\xff" "b\xfe"=null c="ü"`)
}

func TestLimit(t *testing.T) {
	var out bytes.Buffer
	enough := 0
	s := New(Options{Out: &out, Print: JSON{}, Limit: 1, Enough: func() { enough++ }})
	row := core.PackTuple(core.Text("1"), core.Null(), core.Null())
	_, err := s.HandleTransaction(t.Context(), &core.Unit{Checkpoint: 8})
	require.NoError(t, err)
	require.Zero(t, enough, "an idle step is no transaction")
	_, err = s.HandleTransaction(t.Context(), unit(16, row))
	require.NoError(t, err)
	require.Equal(t, 1, enough)
	printed := out.Len()
	var failed *core.SinkError
	_, err = s.HandleTransaction(t.Context(), unit(32, row))
	require.ErrorAs(t, err, &failed, "beyond the limit nothing is acknowledged")
	_, err = s.HandleLargeTransaction(t.Context(), &large{})
	require.ErrorAs(t, err, &failed)
	require.Equal(t, printed, out.Len())
	stored, err := s.Checkpoint(t.Context(), core.CheckpointRequest{Claim: &core.Claim{Epoch: 3}})
	require.NoError(t, err)
	require.Equal(t, core.Checkpoint{Position: 16, Epoch: 3}, stored)
}

// large gives frames and then fails or commits.
type large struct {
	frames int
	commit bool
}

func (l *large) Begin() core.LargeBegin { return core.LargeBegin{XID: 9, CommitLSN: 8} }

func (l *large) Next(context.Context) (core.LargeFrame, error) {
	if l.frames > 0 {
		l.frames--
		row := core.PackTuple(core.Text("1"), core.Null(), core.Null())
		return core.LargeFrame{Changes: []core.Change{{Op: core.OpInsert, Relation: odd, New: row}, {Op: core.OpInsert, Relation: odd, New: row}}}, nil
	}
	if l.commit {
		return core.LargeFrame{Commit: &core.LargeCommit{EndLSN: 16, Checkpoint: 16}}, nil
	}
	return core.LargeFrame{}, errors.New("cut")
}

func TestLargeTransactionIsPrintedWholeOrNotAtAll(t *testing.T) {
	var out bytes.Buffer
	s := New(Options{Out: &out, Print: JSON{}})
	_, err := s.HandleLargeTransaction(t.Context(), &large{frames: 5000})
	require.ErrorContains(t, err, "cut")
	require.Zero(t, out.Len())
	ack, err := s.HandleLargeTransaction(t.Context(), &large{frames: 5000, commit: true})
	require.NoError(t, err)
	require.Equal(t, core.LSN(16), ack.Checkpoint)
	var got struct {
		Count   int `json:"change_count"`
		Changes []any
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Equal(t, 10_000, got.Count)
	require.Len(t, got.Changes, 10_000)
}

// What could not be written is not acknowledged.
func TestBrokenOutputIsNoAck(t *testing.T) {
	r, w := io.Pipe()
	require.NoError(t, r.Close())
	s := New(Options{Out: w, Print: Text{}})
	_, err := s.HandleTransaction(t.Context(), unit(16, core.PackTuple(core.Null(), core.Null(), core.Null())))
	require.Error(t, err)
	stored, err := s.Checkpoint(t.Context(), core.CheckpointRequest{})
	require.NoError(t, err)
	require.Zero(t, stored.Position)
}
