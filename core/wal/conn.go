package wal

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Conn is one replication connection: first for commands, after Start for the stream.
//
// Commands, Start, Read, Finish and Close are called by one goroutine at a time;
// Confirm, Flush, Err, PID and Close by any.
type Conn struct {
	options  Options
	interval time.Duration
	pid      uint32
	major    int            // of the server
	pg       *pgconn.PgConn // until Start, and again when Start failed

	// The stream. net is what carries frames (TLS or not), socket what lies below.
	net     net.Conn
	socket  *socket
	overTLS bool
	reading chan struct{} // holds one token; the holder reads
	watched watch
	rest    []byte // the beginning of the next frame, in the memory of an earlier Batch
	big     bool   // rest is the beginning of a buffer made for one frame
	readErr error  // what stands behind the frames that were returned last

	status status

	failed  atomic.Pointer[failure]
	stopped chan struct{} // closed by the first failure
	writer  sync.WaitGroup
}

type failure struct{ err error }

func newConn(o Options, pg *pgconn.PgConn) *Conn {
	c := &Conn{
		options: o, interval: o.StatusInterval, pid: pg.PID(), pg: pg,
		reading: make(chan struct{}, 1),
		stopped: make(chan struct{}),
	}
	c.reading <- struct{}{}
	c.status.init()
	return c
}

// PID is the process id of the server's side, as told at connect.
func (c *Conn) PID() uint32 { return c.pid }

// Err is why the connection is of no more use: a *core.Halt, ErrConnectionLost or
// ErrClosed. It is nil while it works.
func (c *Conn) Err() error {
	if f := c.failed.Load(); f != nil {
		return f.err
	}
	return nil
}

// fail ends the connection's use. The first reason stays; after it no position is told
// any more and a Read that blocks returns.
func (c *Conn) fail(err error) error {
	if c.failed.CompareAndSwap(nil, &failure{err: err}) {
		close(c.stopped)
		if c.net != nil {
			_ = c.net.SetReadDeadline(longAgo)
		}
	}
	return c.Err()
}

// commandable reports an error unless commands may be sent.
func (c *Conn) commandable() error {
	if err := c.Err(); err != nil {
		return err
	}
	if c.pg == nil {
		return core.NewHalt(core.HaltInvariant, phaseCommand.String(), "a command after the stream began")
	}
	return nil
}

// Close ends the connection at once and waits for its goroutine. What was confirmed and
// not yet told is not told; Finish does that. Closing twice is no error.
func (c *Conn) Close() error {
	const polite = time.Second
	_ = c.fail(ErrClosed)
	if c.net != nil {
		// A server that does not read cannot hold us up.
		forced := time.AfterFunc(polite, func() { _ = c.net.Close() })
		c.writer.Wait()
		_ = c.net.SetWriteDeadline(time.Now().Add(polite))
		_, _ = c.net.Write([]byte{'X', 0, 0, 0, 4})
		_ = c.net.Close()
		forced.Stop()
	}
	<-c.reading
	c.watched.off()
	c.reading <- struct{}{}
	if c.pg != nil {
		ctx, cancel := context.WithTimeout(context.Background(), polite)
		defer cancel()
		_ = c.pg.Close(ctx)
	}
	return nil
}
