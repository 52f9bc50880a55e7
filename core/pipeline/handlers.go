package pipeline

import "github.com/replicant-sidecar/replicant-sidecar/core"

// handlers are the doors of one sink. They are looked up once, when the sink is
// registered; whether one may be used is decided by the advertised capabilities alone.
type handlers struct {
	sink        core.Sink
	checkpoint  core.CheckpointHandler
	transaction core.TransactionHandler
	batch       core.BatchHandler
	large       core.LargeTransactionHandler
	message     core.MessageHandler
	schema      core.SchemaChangeHandler
	identity    core.SessionIdentityHandler
	origin      core.SlotOriginHandler
	snapshot    core.SnapshotHandler
	complete    core.SnapshotCompleteHandler
	progress    core.SnapshotProgressHandler
}

func register(sink core.Sink) handlers {
	h := handlers{sink: sink}
	h.checkpoint, _ = sink.(core.CheckpointHandler)
	h.transaction, _ = sink.(core.TransactionHandler)
	h.batch, _ = sink.(core.BatchHandler)
	h.large, _ = sink.(core.LargeTransactionHandler)
	h.message, _ = sink.(core.MessageHandler)
	h.schema, _ = sink.(core.SchemaChangeHandler)
	h.identity, _ = sink.(core.SessionIdentityHandler)
	h.origin, _ = sink.(core.SlotOriginHandler)
	h.snapshot, _ = sink.(core.SnapshotHandler)
	h.complete, _ = sink.(core.SnapshotCompleteHandler)
	h.progress, _ = sink.(core.SnapshotProgressHandler)
	return h
}

// implements is what the registered value has methods for.
func (h handlers) implements() core.CapabilitySet {
	var list []core.Capability
	for capability, present := range map[core.Capability]bool{
		core.CapCheckpoint: h.checkpoint != nil, core.CapTransaction: h.transaction != nil,
		core.CapBatch: h.batch != nil, core.CapLargeTransaction: h.large != nil,
		core.CapMessage: h.message != nil, core.CapSchemaChange: h.schema != nil,
		core.CapSessionIdentity: h.identity != nil, core.CapSlotOrigin: h.origin != nil,
		core.CapSnapshot: h.snapshot != nil, core.CapSnapshotComplete: h.complete != nil,
		core.CapSnapshotProgress: h.progress != nil,
	} {
		if present {
			list = append(list, capability)
		}
	}
	return core.NewCapabilitySet(list...)
}
