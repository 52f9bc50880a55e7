package wal

import (
	"context"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Finish ends the stream in order: the last status update, the end of the copy, and
// then it waits for the server's end, so that the position it returns for is stored.
// Frames that still come are dropped; they were never confirmed. ctx bounds all of it.
// Read must not be waiting meanwhile: Finish would wait for it.
func (c *Conn) Finish(ctx context.Context) error {
	select {
	case <-c.reading:
	case <-c.stopped:
		return c.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { c.reading <- struct{}{} }()
	if err := c.request(ctx, true); err != nil {
		return err
	}
	err := c.awaitEnd(ctx)
	_ = c.fail(ErrClosed)
	return err
}

// awaitEnd drops frames until the server takes commands again.
func (c *Conn) awaitEnd(ctx context.Context) error {
	if c.readErr != nil {
		return c.readErr
	}
	d := discarder{buf: make([]byte, bufferSize)}
	done, err := d.feed(c.rest)
	c.rest = nil
	for !done && err == nil {
		var n int
		if n, err = c.readSome(ctx, d.buf[d.have:]); err != nil {
			return err
		}
		done, err = d.more(n)
	}
	return err
}

// discarder walks over messages and keeps none.
type discarder struct {
	buf  []byte
	have int // bytes in buf that begin a message
	skip int // bytes of a frame that are still to come
}

// feed takes bytes that were read before.
func (d *discarder) feed(data []byte) (done bool, err error) {
	for len(data) > 0 && !done && err == nil {
		n := copy(d.buf[d.have:], data)
		data = data[n:]
		done, err = d.more(n)
	}
	return done, err
}

// more accounts for n further bytes behind buf[:have] and reports ReadyForQuery.
func (d *discarder) more(n int) (done bool, err error) {
	data := d.buf[:d.have+n]
	for len(data) > 0 {
		if d.skip > 0 {
			gone := min(d.skip, len(data))
			data, d.skip = data[gone:], d.skip-gone
			continue
		}
		size, err := messageSize(data)
		if err != nil {
			return false, err
		}
		if size > 0 && data[0] == 'd' {
			d.skip = size
			continue
		}
		if size > len(d.buf) {
			return false, core.NewHalt(core.HaltMalformedStream, "finish", "a message of kind 0x%02x with %d bytes", data[0], size)
		}
		if size == 0 || size > len(data) {
			break
		}
		if done, err := endMessage(data[0], data[headerSize:size]); done || err != nil {
			return done, err
		}
		data = data[size:]
	}
	d.have = copy(d.buf, data)
	return false, nil
}

// endMessage is a message that is no frame, after the end of the copy was sent.
func endMessage(letter byte, body []byte) (done bool, err error) {
	switch letter {
	case 'Z':
		return true, nil
	case 'c', 'C':
		return false, nil
	}
	return false, sideMessage(letter, body)
}
