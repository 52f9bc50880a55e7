package wal

import (
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

const (
	// bufferSize is the memory of a Batch; larger frames get memory of their own.
	bufferSize = 256 << 10

	headerSize    = 5      // letter and length of a protocol message
	dataHeader    = 1 + 24 // 'w', start, WAL end, time
	keepaliveSize = 1 + 17 // 'k', WAL end, time, reply requested
	// frameMax bounds what a length may ask for: Postgres builds no message above
	// 1 GiB (MaxAllocSize), plus our headers.
	frameMax = 1<<30 + dataHeader
)

// Frame is one message of the stream, not decoded.
type Frame struct {
	// Keepalive frames have WALEnd, Time and ReplyRequested and no Data. Their WALEnd
	// is a position: everything that ends at or before it has been sent.
	Keepalive      bool
	ReplyRequested bool
	// Start of a data frame is no watermark: it goes back, and is 0 for some kinds.
	Start, WALEnd core.LSN
	// Time is the server's clock when it sent, in microseconds since 2000-01-01 UTC.
	Time int64
	// Data is the pgoutput message, in the Batch's memory.
	Data []byte
}

// SentAt is Time as a time.
func (f Frame) SentAt() time.Time { return postgresEpoch.Add(time.Duration(f.Time) * time.Microsecond) }

var postgresEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Batch is the memory of one Read and the frames in it, which stay valid until it is
// given to Read again. The zero value is ready.
type Batch struct {
	Frames []Frame
	buf    []byte
	large  []byte // a frame that did not fit into buf
}

// MemoryBytes is what the batch holds on to.
func (b *Batch) MemoryBytes() int {
	const frameSize = 64
	return cap(b.buf) + cap(b.large) + cap(b.Frames)*frameSize
}

// messageSize reads the length of the message that begins data: 0 when even the length
// is incomplete, an error when it cannot be right.
func messageSize(data []byte) (int, error) {
	if len(data) < headerSize {
		return 0, nil
	}
	length := binary.BigEndian.Uint32(data[1:])
	if length < 4 || length > frameMax+4 {
		return 0, core.NewHalt(core.HaltMalformedStream, phaseStream.String(), "a message says it is %d bytes long", length)
	}
	return int(length) + 1, nil
}

// take parses complete messages from data into b.Frames and returns how many bytes they
// took. After an error, which belongs behind the frames, nothing more is taken.
func (c *Conn) take(b *Batch, data []byte) (int, error) {
	used := 0
	for {
		size, err := messageSize(data[used:])
		if err != nil {
			return used, err
		}
		if size == 0 || size > len(data)-used {
			return used, nil
		}
		letter, body := data[used], data[used+headerSize:used+size:used+size]
		used += size
		if letter != 'd' {
			if err := sideMessage(letter, body); err != nil {
				return used, err
			}
			continue
		}
		frame, err := parseFrame(body)
		if err != nil {
			return used, err
		}
		b.Frames = append(b.Frames, frame)
	}
}

// parseFrame reads the body of a CopyData message.
func parseFrame(body []byte) (Frame, error) {
	switch {
	case len(body) >= dataHeader && body[0] == 'w':
		return Frame{
			Start:  core.LSN(binary.BigEndian.Uint64(body[1:])),
			WALEnd: core.LSN(binary.BigEndian.Uint64(body[9:])),
			Time:   int64(binary.BigEndian.Uint64(body[17:])),
			Data:   body[dataHeader:],
		}, nil
	case len(body) == keepaliveSize && body[0] == 'k' && body[17] <= 1:
		return Frame{
			Keepalive:      true,
			WALEnd:         core.LSN(binary.BigEndian.Uint64(body[1:])),
			Time:           int64(binary.BigEndian.Uint64(body[9:])),
			ReplyRequested: body[17] == 1,
		}, nil
	}
	if len(body) == 0 {
		return Frame{}, core.NewHalt(core.HaltMalformedStream, phaseStream.String(), "an empty frame")
	}
	return Frame{}, core.NewHalt(core.HaltMalformedStream, phaseStream.String(),
		"a frame of kind 0x%02x with %d bytes", body[0], len(body))
}

// sideMessage is a message inside the copy that carries no frame. Nil means that it
// may be ignored.
func sideMessage(letter byte, body []byte) error {
	switch letter {
	case 'S', 'A': // a setting was reloaded; a notification
		return nil
	case 'N':
		return notice(body)
	case 'E':
		return serverError(phaseStream, body)
	case 'c', 'C', 'Z':
		return &LostError{Op: phaseStream.String(), Reason: "the server ended the stream"}
	}
	return core.NewHalt(core.HaltMalformedStream, phaseStream.String(), "a message of kind 0x%02x", letter)
}

// notice halts on Postgres 18's word that it left a publication out of the stream
// (55000), which older majors report as an error. The text may be translated, so the
// SQLSTATE decides, but for a walsender that waits for a standby, see waitsForStandby.
// Other notices mean nothing for the data.
func notice(body []byte) error {
	var n pgproto3.NoticeResponse
	if err := n.Decode(body); err != nil {
		return core.NewHalt(core.HaltMalformedStream, phaseStream.String(), "a notice cannot be read")
	}
	if n.Code != "55000" || n.Routine == waitsForStandby {
		return nil
	}
	h := core.NewHalt(core.HaltPublicationMissing, phaseStream.String(),
		"the server left a configured publication out of the stream (SQLSTATE 55000)")
	h.Err = &ServerError{SQLSTATE: n.Code, Severity: n.SeverityUnlocalized, Routine: n.Routine}
	return h
}

// waitsForStandby is the routine of 17 and later that keeps a failover slot's stream from
// being ahead of synchronized_standby_slots. While one of them is away it warns with the
// same SQLSTATE, and while the server shuts down that is an error.
const waitsForStandby = "StandbySlotsHaveCaughtup"

// serverError classifies an ErrorResponse that was read by us.
func serverError(p phase, body []byte) error {
	var e pgproto3.ErrorResponse
	if err := e.Decode(body); err != nil || len(e.Code) != 5 {
		return core.NewHalt(core.HaltMalformedStream, p.String(), "an error of the server cannot be read")
	}
	if p == phaseStream && e.Code == "55000" && e.Routine == waitsForStandby {
		return &LostError{Op: p.String(), SQLSTATE: e.Code, Reason: "the server shuts down while a standby that it waits for is away"}
	}
	return classifyServer(p, pgconn.ErrorResponseToPgError(&e))
}
