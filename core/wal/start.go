package wal

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Start begins the stream at a position. Until the first Confirm, status updates
// repeat floor, which must be the slot's confirmed_flush as read for this session.
//
// A refusal leaves the slot as it was: ErrSlotBusy, a halt that names the slot's state
// (slot_invalidated, slot_database, slot_plugin, slot_two_phase, wal_level,
// data_gap.slot_missing), or source_refused.
func (c *Conn) Start(ctx context.Context, at, floor core.LSN) error {
	if err := c.commandable(); err != nil {
		return err
	}
	if at == 0 || floor == 0 {
		return core.NewHalt(core.HaltInvariant, phaseStart.String(), "start at %s with floor %s: neither may be zero", at, floor)
	}
	// What the driver has in hand is read to its end, so that no byte of the stream can
	// be left in one of its buffers.
	if err := c.pg.SyncConn(ctx); err != nil {
		return c.fail(classify(ctx, phaseStart, err))
	}
	hijacked, err := c.pg.Hijack()
	if err != nil {
		return c.fail(classify(ctx, phaseStart, err))
	}
	if err := c.own(hijacked); err != nil {
		return c.fail(err)
	}
	if err := c.send(ctx, &pgproto3.Query{String: startCommand(c.options, c.major, at)}); err != nil {
		return c.fail(err)
	}
	refusal, err := c.awaitCopy(ctx)
	if err != nil {
		return c.fail(err)
	}
	if refusal != nil {
		return c.refused(ctx, hijacked, refusal)
	}
	c.status.mu.Lock()
	c.status.at, c.status.floor, c.status.told, c.status.started = at, floor, floor, true
	c.status.mu.Unlock()
	c.writer.Go(c.writeStatus)
	return nil
}

// own takes the socket out of the driver's hands.
func (c *Conn) own(hijacked *pgconn.HijackedConn) error {
	c.pg, c.net = nil, hijacked.Conn
	switch conn := hijacked.Conn.(type) {
	case *socket:
		c.socket = conn
	case *tls.Conn:
		c.socket, c.overTLS = conn.NetConn().(*socket), true
	default:
		return core.NewHalt(core.HaltInvariant, phaseStart.String(), "a connection of unknown kind")
	}
	c.socket.stream(c.overTLS)
	return nil
}

// Protocol versions: 1 sends whole transactions after their commit, 2 those in progress too.
// 4 differs from 2 in nothing that is asked for here; it is what 16 and later call their own.
const (
	protocolPlain     = "1"
	protocolStreaming = "2"
	protocolNewest    = "4"
	protocolNewestFor = 16 // major
)

// startCommand asks for what the options say. Other options stay at the server's defaults.
func startCommand(o Options, major int, at core.LSN) string {
	names := make([]string, len(o.Publications))
	for i, name := range o.Publications {
		names[i] = quoteIdentifier(name)
	}
	command := "START_REPLICATION SLOT " + quoteIdentifier(o.Slot) + " LOGICAL " + at.String() +
		" (proto_version " + quoteLiteral(protocol(o, major)) + ", publication_names " + quoteLiteral(strings.Join(names, ","))
	if o.Messages {
		command += ", messages 'true'"
	}
	if o.Streaming {
		command += ", streaming 'on'"
	}
	return command + ")"
}

func protocol(o Options, major int) string {
	switch {
	case !o.Streaming:
		return protocolPlain
	case major < protocolNewestFor:
		return protocolStreaming
	}
	return protocolNewest
}

// send writes a message before the writing goroutine exists.
func (c *Conn) send(ctx context.Context, m pgproto3.FrontendMessage) error {
	message, err := m.Encode(nil)
	if err != nil {
		return core.NewHalt(core.HaltInvariant, phaseStart.String(), "a command cannot be encoded")
	}
	_ = c.net.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := c.net.Write(message); err != nil {
		return classify(ctx, phaseStart, err)
	}
	return nil
}

// awaitCopy reads the answer to START_REPLICATION: the begin of the copy, or an error
// up to the point where the server takes commands again. What follows the begin of the
// copy stays in c.rest.
func (c *Conn) awaitCopy(ctx context.Context) (refusal *pgproto3.ErrorResponse, err error) {
	buf := make([]byte, bufferSize)
	have := 0
	for {
		n, err := c.readSome(ctx, buf[have:])
		if err != nil {
			return nil, err
		}
		have += n
		used := 0
		for {
			size, err := messageSize(buf[used:have])
			if err != nil {
				return nil, err
			}
			if size == 0 || size > have-used {
				break
			}
			letter, body := buf[used], buf[used+headerSize:used+size]
			used += size
			switch letter {
			case 'W':
				c.rest = buf[used:have]
				return nil, nil
			case 'E':
				refusal = new(pgproto3.ErrorResponse)
				if err := refusal.Decode(body); err != nil {
					return nil, core.NewHalt(core.HaltMalformedStream, phaseStart.String(), "an error of the server cannot be read")
				}
				if severityEnds(refusal) {
					return refusal, nil
				}
			case 'Z':
				return refusal, endOfCommand(refusal)
			default:
				if err := sideMessage(letter, body); err != nil {
					return nil, err
				}
			}
		}
		have = copy(buf, buf[used:have])
		if have == len(buf) {
			return nil, core.NewHalt(core.HaltMalformedStream, phaseStart.String(), "an answer of %d bytes", len(buf))
		}
	}
}

// severityEnds reports whether the server ends the session after this error.
func severityEnds(e *pgproto3.ErrorResponse) bool {
	return e.SeverityUnlocalized == "FATAL" || e.SeverityUnlocalized == "PANIC"
}

func endOfCommand(refusal *pgproto3.ErrorResponse) error {
	if refusal != nil {
		return nil
	}
	return core.NewHalt(core.HaltSourcePooler, phaseStart.String(), "the server answered START_REPLICATION with no stream")
}

// refused gives the connection back to the driver and asks the catalog why, since one
// SQLSTATE stands for many states and messages are translated.
func (c *Conn) refused(ctx context.Context, hijacked *pgconn.HijackedConn, refusal *pgproto3.ErrorResponse) error {
	refusedWith := pgconn.ErrorResponseToPgError(refusal)
	answer := classifyServer(phaseStart, refusedWith)
	if severityEnds(refusal) {
		return c.fail(answer)
	}
	c.watched.off()
	_ = c.net.SetReadDeadline(time.Time{})
	_ = c.net.SetWriteDeadline(time.Time{})
	c.socket.streaming, c.socket.ahead = false, nil
	pg, err := pgconn.Construct(hijacked)
	if err != nil {
		return c.fail(answer)
	}
	c.pg, c.net = pg, nil
	state, err := readSlot(ctx, pg, c.options.Slot)
	if errors.Is(answer, ErrSlotBusy) {
		state.Name = c.options.Slot
		return state.Busy()
	}
	if err != nil {
		return classify(ctx, phaseStart, err) // why it was refused is not known, so try again
	}
	if why := state.Obstacle(); why != nil {
		why.Op, why.Err = phaseStart.String(), &ServerError{
			SQLSTATE: refusedWith.Code, Severity: refusedWith.SeverityUnlocalized, Routine: refusedWith.Routine,
		}
		return why
	}
	return answer
}
