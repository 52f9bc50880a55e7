package pipeline

import (
	"context"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

// chunksInPlay bounds the memory between socket and assembler: one chunk is filled
// while another is assembled.
const chunksInPlay = 2

// describeTimeout bounds the wait for a relation's catalog facts. They are a courtesy:
// without them the relation is delivered as the stream described it.
const describeTimeout = time.Second

// chunk is what one read of the socket brought, decoded. Messages alias the batch.
type chunk struct {
	batch wal.Batch
	items []item
	// err is why the stream ends behind the last item.
	err error
}

// item is one frame: a decoded message or a keepalive.
type item struct {
	msg            pgoutput.Message
	walEnd         core.LSN
	keepalive      bool
	replyRequested bool
}

// pump owns the socket's reading side: frames in, decoded chunks out. While the loop
// does not take a chunk it stops reading, and TCP pushes back on Postgres.
type pump struct {
	conn    *wal.Conn
	catalog *wal.Catalog
	decoder *pgoutput.Decoder
	streams described
	xid     uint32 // of the transaction that is not in a stream of its own
	chunks  chan *chunk
	free    chan *chunk
}

func newPump(conn *wal.Conn, catalog *wal.Catalog, streaming bool) *pump {
	p := &pump{
		conn: conn, catalog: catalog, decoder: pgoutput.NewDecoder(pgoutput.Options{Streaming: streaming}),
		streams: described{},
		chunks:  make(chan *chunk), free: make(chan *chunk, chunksInPlay),
	}
	for range chunksInPlay {
		p.free <- &chunk{}
	}
	return p
}

// run ends after it has handed on a chunk with an error, or when ctx is done.
func (p *pump) run(ctx context.Context) {
	for {
		var c *chunk
		select {
		case c = <-p.free:
		case <-ctx.Done():
			return
		}
		p.fill(ctx, c)
		select {
		case p.chunks <- c:
		case <-ctx.Done():
			return
		}
		if c.err != nil {
			return
		}
	}
}

func (p *pump) fill(ctx context.Context, c *chunk) {
	c.items = c.items[:0]
	if c.err = p.conn.Read(ctx, &c.batch); c.err != nil {
		return
	}
	for i := range c.batch.Frames {
		f := &c.batch.Frames[i]
		c.items = append(c.items, item{})
		it := &c.items[len(c.items)-1]
		it.walEnd, it.keepalive, it.replyRequested = f.WALEnd, f.Keepalive, f.ReplyRequested
		if f.Keepalive {
			continue
		}
		if err := p.decoder.Decode(f.Data, &it.msg); err != nil {
			c.items, c.err = c.items[:len(c.items)-1], err
			return
		}
		switch it.msg.Kind {
		case pgoutput.KindBegin, pgoutput.KindStreamCommit:
			p.xid = it.msg.XID
		}
		for _, r := range p.streams.due(&it.msg) {
			p.describe(ctx, r)
		}
	}
}

// describe asks the catalog on the ordinary connection about a relation of a transaction
// that has committed. It never fails the stream.
func (p *pump) describe(ctx context.Context, r *core.Relation) {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	_ = p.catalog.DescribeOf(ctx, r, p.xid) // what could not be learned stays unset
}
