package sink

import (
	"context"
	"crypto/rand"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// implemented is the set of capabilities whose interface the sink has.
func implemented(s core.Sink) core.CapabilitySet {
	var set core.CapabilitySet
	add := func(has bool, capability core.Capability) {
		if has {
			set |= core.NewCapabilitySet(capability)
		}
	}
	_, checkpoint := s.(core.CheckpointHandler)
	_, transaction := s.(core.TransactionHandler)
	_, batch := s.(core.BatchHandler)
	_, large := s.(core.LargeTransactionHandler)
	_, message := s.(core.MessageHandler)
	_, schema := s.(core.SchemaChangeHandler)
	_, identity := s.(core.SessionIdentityHandler)
	_, origin := s.(core.SlotOriginHandler)
	_, snapshot := s.(core.SnapshotHandler)
	_, complete := s.(core.SnapshotCompleteHandler)
	_, progress := s.(core.SnapshotProgressHandler)
	add(checkpoint, core.CapCheckpoint)
	add(transaction, core.CapTransaction)
	add(batch, core.CapBatch)
	add(large, core.CapLargeTransaction)
	add(message, core.CapMessage)
	add(schema, core.CapSchemaChange)
	add(identity, core.CapSessionIdentity)
	add(origin, core.CapSlotOrigin)
	add(snapshot, core.CapSnapshot)
	add(complete, core.CapSnapshotComplete)
	add(progress, core.CapSnapshotProgress)
	return set
}

// newInstance names this process.
func newInstance() []byte {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return id
}

// advertise completes what the sink says of itself. RESUME_STATE alone is the sink's own
// word, since no interface shows it; it needs a checkpoint to go with.
func (s *server) advertise(ctx context.Context) (core.Capabilities, error) {
	own, err := s.sink.Capabilities(ctx)
	if err != nil {
		return own, err
	}
	resume := own.Set & core.NewCapabilitySet(core.CapResumeState)
	stored := own.Fences(core.FencingStored)
	own.Set, own.InstanceID, own.Fencing = s.set, s.streams.instance, nil
	if s.set.Has(core.CapCheckpoint) {
		own.Set |= resume
		if stored {
			own.Fencing = append(own.Fencing, core.FencingStored)
		}
	}
	if !s.options.shared {
		own.Fencing = append(own.Fencing, core.FencingInstance)
	}
	if own.Kind != core.AppendLog {
		own.Kind = core.StateMirror
	}
	return own, nil
}
