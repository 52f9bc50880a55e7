package filestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
)

// A file is one line that names format and checksum, and the row as JSON, for people too.
// The checksum covers all that follows the line.
const (
	magic   = "replicant-checkpoint"
	version = "1"
	// bytesMax bounds a file: a resume state of 1 MiB in base64, and the rest.
	bytesMax = 4 << 20
)

// row is a record with its stream, as it is written. Positions are written as Postgres
// writes them; epochs use all 64 bits, which a JSON number has not.
type row struct {
	StreamID         string `json:"stream_id"`
	Lineage          []byte `json:"lineage"`
	Epoch            uint64 `json:"epoch,string"`
	SenderID         []byte `json:"sender_id"`
	Position         string `json:"pos,omitempty"`
	Base             string `json:"base,omitempty"`
	SystemIdentifier string `json:"source_system_identifier"`
	Database         string `json:"source_database"`
	Slot             string `json:"source_slot"`
	Timeline         uint32 `json:"source_timeline"`
	SinkName         string `json:"sink_name"`
	ResumeState      []byte `json:"resume_state"`
	Progress         []byte `json:"progress,omitempty"`
}

func encode(streamID string, r checkpoint.Record) ([]byte, error) {
	body, err := json.MarshalIndent(row{
		StreamID: streamID, Lineage: r.Lineage[:], Epoch: r.Epoch, SenderID: r.Sender[:],
		Position: text(r.Position), Base: text(r.Base),
		SystemIdentifier: r.Source.SystemIdentifier, Database: r.Source.Database, Slot: r.Source.Slot, Timeline: r.Source.Timeline,
		SinkName: r.SinkName, ResumeState: r.ResumeState, Progress: r.Progress,
	}, "", "  ")
	if err != nil {
		return nil, invalid("the row cannot be written as JSON")
	}
	body = append(body, '\n')
	whole := append([]byte(header(body)), body...)
	if len(whole) > bytesMax {
		return nil, invalid("the row has %d bytes, the most is %d", len(whole), bytesMax)
	}
	return whole, nil
}

func header(body []byte) string {
	sum := sha256.Sum256(body)
	return magic + " " + version + " " + hex.EncodeToString(sum[:]) + "\n"
}

// decode reads a file. What is not exactly as encode writes it is refused.
func decode(streamID string, whole []byte) (checkpoint.Record, error) {
	line, body, _ := bytes.Cut(whole, []byte("\n"))
	fields := strings.Fields(string(line[:min(len(line), 200)]))
	switch {
	case len(fields) != 3 || fields[0] != magic:
		return checkpoint.Record{}, invalid("the checkpoint file is empty, torn or no checkpoint file")
	case fields[1] != version:
		return checkpoint.Record{}, invalid("the checkpoint file has a format that this program does not know")
	case string(whole[:len(line)+1]) != header(body):
		return checkpoint.Record{}, invalid("the checksum of the checkpoint file does not fit its content")
	}
	var w row
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return checkpoint.Record{}, invalid("the checkpoint file is not as this program writes it")
	}
	if _, err := d.Token(); err != io.EOF {
		return checkpoint.Record{}, invalid("the checkpoint file is not as this program writes it")
	}
	if w.StreamID != streamID {
		return checkpoint.Record{}, invalid("the checkpoint file belongs to another stream")
	}
	return w.record()
}

func (w row) record() (checkpoint.Record, error) {
	r := checkpoint.Record{
		Epoch: w.Epoch, SinkName: w.SinkName, ResumeState: w.ResumeState, Progress: w.Progress,
		Source: core.SourceIdentity{SystemIdentifier: w.SystemIdentifier, Database: w.Database, Slot: w.Slot, Timeline: w.Timeline},
	}
	var errPosition, errBase error
	r.Position, errPosition = lsn(w.Position)
	r.Base, errBase = lsn(w.Base)
	if errPosition != nil || errBase != nil || w.Epoch == 0 || len(w.Lineage) != len(r.Lineage) || len(w.SenderID) != len(r.Sender) {
		return checkpoint.Record{}, invalid("the checkpoint file holds values that this program never writes")
	}
	copy(r.Lineage[:], w.Lineage)
	copy(r.Sender[:], w.SenderID)
	return r, nil
}

// text is empty for a position that is none.
func text(at core.LSN) string {
	if at == 0 {
		return ""
	}
	return at.String()
}

func lsn(text string) (core.LSN, error) {
	if text == "" {
		return 0, nil
	}
	at, err := core.ParseLSN(text)
	if err == nil && at == 0 {
		err = fmt.Errorf("a position of 0")
	}
	return at, err
}

func invalid(format string, args ...any) error {
	return core.NewHalt(core.HaltStoreInvalid, "store", format, args...)
}
