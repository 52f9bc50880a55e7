package pgstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
)

// formatVersion is written with a row; a row of another one is not touched.
const formatVersion = "1"

// read columns, and which of them travel in binary.
const (
	readColumns = `format_version, lineage, epoch, sender_id, pos, base, resume_state, source_system_identifier,
 source_database, source_slot, source_timeline, sink_name, unit_gid IS NOT NULL, pg_catalog.current_setting('synchronous_commit'), progress`
	readCount = 15
)

// movedColumns leave resume state and progress, which may be large, where they are.
var movedColumns = strings.NewReplacer("resume_state,", "NULL::bytea,", ", progress", ", NULL::bytea").Replace(readColumns)

var readFormats = []int16{0, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1}

// parameters of a statement; nil is NULL.
type parameters struct {
	values  [][]byte
	formats []int16
}

func (p *parameters) text(values ...string) {
	for _, v := range values {
		p.values, p.formats = append(p.values, []byte(v)), append(p.formats, 0)
	}
}

func (p *parameters) binary(values ...[]byte) {
	for _, v := range values {
		p.values, p.formats = append(p.values, v), append(p.formats, 1)
	}
}

// lsn is absent where the position is 0.
func (p *parameters) lsn(at core.LSN) {
	var v []byte
	if at != 0 {
		v = []byte(at.String())
	}
	p.values, p.formats = append(p.values, v), append(p.formats, 0)
}

// row runs a statement that reads or returns at most one row of the table.
func (s *Store) row(ctx context.Context, sql string, p parameters) (r checkpoint.Record, found bool, err error) {
	result := s.pg.ExecParams(ctx, sql, p.values, nil, p.formats, readFormats).Read()
	switch {
	case result.Err != nil:
		return r, false, result.Err
	case len(result.Rows) == 0:
		return r, false, nil
	case len(result.Rows) > 1 || len(result.Rows[0]) != readCount:
		return r, false, invalid("a statement about one row was answered in another shape")
	}
	r, err = scan(result.Rows[0])
	return r, err == nil, err
}

// scan reads a row. What is not exactly as this package writes it is refused: a position
// that may be wrong is no position.
func scan(v [][]byte) (checkpoint.Record, error) {
	text := func(i int) string { return string(v[i]) }
	switch {
	case text(0) != formatVersion:
		return checkpoint.Record{}, invalid("the row has format version %s, this program knows %s", text(0), formatVersion)
	case text(12) != "f":
		return checkpoint.Record{}, invalid("the row holds an undecided unit of two-phase delivery")
	case text(13) == "off":
		return checkpoint.Record{}, invalid("synchronous_commit is off again: is there a pooler in between?")
	}
	r := checkpoint.Record{ResumeState: v[6], SinkName: text(11), Progress: v[14]}
	r.Source = core.SourceIdentity{SystemIdentifier: text(7), Database: text(8), Slot: text(9)}
	epoch, errEpoch := strconv.ParseUint(text(2), 10, 64)
	timeline, errTimeline := strconv.ParseUint(text(10), 10, 32)
	position, errPosition := lsn(v[4])
	base, errBase := lsn(v[5])
	if errEpoch != nil || errTimeline != nil || errPosition != nil || errBase != nil ||
		epoch == 0 || len(v[1]) != len(r.Lineage) || len(v[3]) != len(r.Sender) {
		return checkpoint.Record{}, invalid("the row holds values that this program never writes")
	}
	r.Epoch, r.Position, r.Base, r.Source.Timeline = epoch, position, base, uint32(timeline)
	copy(r.Lineage[:], v[1])
	copy(r.Sender[:], v[3])
	return r, nil
}

// lsn reads a position; one that is stored as 0/0 was not written by us.
func lsn(text []byte) (core.LSN, error) {
	if text == nil {
		return 0, nil
	}
	at, err := core.ParseLSN(string(text))
	if err == nil && at == 0 {
		err = strconv.ErrRange
	}
	return at, err
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

// bare is text without zero bytes, which Postgres does not store; sinks name themselves.
func bare(text string) string { return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "?") }
