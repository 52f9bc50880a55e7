package pipeline

import (
	"context"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// sinkCourier delivers to a sink that stores rows and checkpoint together. An unknown
// outcome ends the session: the next start asks the sink where it stands.
type sinkCourier struct {
	caller
	handlers handlers
	batch    bool
}

func (c *sinkCourier) unit(ctx context.Context, u *core.Unit, _ func(int) []byte) (ack core.Ack, err error) {
	err = c.patiently(ctx, func(ctx context.Context) (err error) {
		u.Call = c.next()
		if c.batch {
			ack, err = c.handlers.batch.HandleBatch(ctx, u)
			return classify("HandleBatch", err)
		}
		ack, err = c.handlers.transaction.HandleTransaction(ctx, u)
		return classify("HandleTransaction", err)
	})
	return ack, err
}

// large has no deadline of its own: the client bounds the time without progress. It is
// repeated only until the sink has taken the first piece.
func (c *sinkCourier) large(ctx context.Context, f *feed) (ack core.Ack, err error) {
	err = c.while(ctx, func() bool { return !f.taken }, func(ctx context.Context) (err error) {
		f.begin.Call = c.next()
		ack, err = c.handlers.large.HandleLargeTransaction(ctx, f)
		return classify("HandleLargeTransaction", err)
	})
	return ack, err
}

func (c *sinkCourier) message(ctx context.Context, u *core.MessageUnit) (ack core.Ack, err error) {
	err = c.patiently(ctx, func(ctx context.Context) (err error) {
		u.Call = c.next()
		ack, err = c.handlers.message.HandleMessage(ctx, u)
		return classify("HandleMessage", err)
	})
	return ack, err
}

func (c *sinkCourier) schemaChange(ctx context.Context, u *core.SchemaChangeUnit) error {
	return c.patiently(ctx, func(ctx context.Context) error {
		u.Call = c.next()
		return classify("HandleSchemaChange", c.handlers.schema.HandleSchemaChange(ctx, u))
	})
}

func (c *sinkCourier) snapshot(ctx context.Context, u *core.SnapshotUnit) (counts core.Counts, err error) {
	err = c.patiently(ctx, func(ctx context.Context) (err error) {
		u.Call = c.next()
		counts, err = c.handlers.snapshot.HandleSnapshot(ctx, u)
		return classify("HandleSnapshot", err)
	})
	return counts, err
}

func (c *sinkCourier) complete(ctx context.Context, u *core.SnapshotCompleteUnit) (ack core.Ack, err error) {
	err = c.patiently(ctx, func(ctx context.Context) (err error) {
		u.Call = c.next()
		ack, err = c.handlers.complete.HandleSnapshotComplete(ctx, u)
		return classify("HandleSnapshotComplete", err)
	})
	return ack, err
}
