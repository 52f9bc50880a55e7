package pipeline

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
)

// resolveMode turns the wish and what the sink advertises into the mode of the session,
// or into the start error that says what is missing. It runs before the slot is
// touched.
func resolveMode(o Options, caps core.Capabilities) (Mode, error) {
	if o.Source.Messages && !caps.Set.Has(core.CapMessage) {
		return 0, core.NewHalt(core.HaltMessagesUnsupported, "GetCapabilities", "the sink does not advertise %s", core.CapMessage)
	}
	if lacking := caps.Set.Missing(o.snapshotNeeds()); len(lacking) > 0 {
		return 0, core.NewHalt(core.HaltSnapshotUnsupported, "GetCapabilities", "the sink does not advertise %s", lacking[0])
	}
	if o.Store != nil {
		return resolveLib(o, caps)
	}
	wish := o.Delivery.Mode
	if !caps.Set.Has(core.CapCheckpoint) {
		return 0, missing(core.HaltInvalidSink, wish, core.CapCheckpoint)
	}
	switch wish {
	case ModeBatch:
		if !caps.Set.Has(core.CapBatch) {
			return 0, missing(core.HaltBatchUnsupported, wish, core.CapBatch)
		}
		return ModeBatch, nil
	case ModeTransaction:
		if !caps.Set.Has(core.CapTransaction) {
			return 0, missing(core.HaltInvalidSink, wish, core.CapTransaction)
		}
		return ModeTransaction, nil
	}
	switch {
	case caps.Set.Has(core.CapBatch):
		return ModeBatch, nil
	case caps.Set.Has(core.CapTransaction):
		return ModeTransaction, nil
	}
	return 0, missing(core.HaltInvalidSink, wish, core.CapTransaction)
}

// resolveLib is for a checkpoint in our store. Without a fence in the sink's memory one
// late call could write an old row over a newer one.
func resolveLib(o Options, caps core.Capabilities) (Mode, error) {
	mode := ModeLib
	if o.StoreBatch > 1 {
		mode = ModeLibBatched
	}
	switch {
	case o.Delivery.Mode == ModeBatch:
		return 0, core.NewHalt(core.HaltConfigInvalid, "options", "delivery.mode batch needs a sink that stores the checkpoint; it excludes checkpoint_store")
	case !caps.Set.Has(core.CapTransaction):
		return 0, missing(core.HaltInvalidSink, mode, core.CapTransaction)
	case !caps.Fences(core.FencingInstance) && !o.AcceptUnfenced:
		return 0, core.NewHalt(core.HaltFencingRequired, "GetCapabilities", "a checkpoint store needs a sink that fences by INSTANCE")
	}
	return mode, nil
}

func missing(code core.HaltCode, wish Mode, capability core.Capability) error {
	return core.NewHalt(code, "GetCapabilities", "delivery.mode %s needs %s, which the sink does not advertise", wish, capability)
}

// snapshotNeeds is what the way of copying asks of the sink.
func (o Options) snapshotNeeds() core.CapabilitySet {
	var own core.Capability
	switch o.Snapshot {
	case checkpoint.SnapshotInitial:
		own = core.CapSnapshotComplete
	case checkpoint.SnapshotIncremental:
		own = core.CapSnapshotProgress
	default:
		return 0
	}
	if o.Store != nil { // the row of our own takes its place
		return core.NewCapabilitySet(core.CapSnapshot)
	}
	return core.NewCapabilitySet(core.CapSnapshot, own)
}

// inUse is the set of capabilities whose loss while running halts.
func inUse(mode Mode, o Options, caps core.Capabilities) core.CapabilitySet {
	var used core.CapabilitySet
	switch mode {
	case ModeBatch:
		used = core.NewCapabilitySet(core.CapCheckpoint, core.CapBatch)
	case ModeTransaction:
		used = core.NewCapabilitySet(core.CapCheckpoint, core.CapTransaction)
	default:
		used = core.NewCapabilitySet(core.CapTransaction)
	}
	used |= o.snapshotNeeds()
	if o.Source.Messages {
		used |= core.NewCapabilitySet(core.CapMessage)
	}
	for _, optional := range []core.Capability{
		core.CapLargeTransaction, core.CapSchemaChange, core.CapSessionIdentity, core.CapSlotOrigin,
	} {
		if caps.Set.Has(optional) {
			used |= core.NewCapabilitySet(optional)
		}
	}
	return used
}

// sameSink compares what a sink says on a reconnect with what this run began with. The
// rest may change and counts from then on.
func sameSink(before, now core.Capabilities, used core.CapabilitySet) error {
	switch {
	case before.Name != now.Name || before.Kind != now.Kind:
		return core.NewHalt(core.HaltCapabilityLost, "GetCapabilities", "the sink came back under another name or kind")
	case len(now.Set.Missing(used)) > 0:
		return core.NewHalt(core.HaltCapabilityLost, "GetCapabilities", "the sink no longer advertises %s",
			core.NewCapabilitySet(now.Set.Missing(used)...))
	case before.Fences(core.FencingStored) && !now.Fences(core.FencingStored):
		return core.NewHalt(core.HaltCapabilityLost, "GetCapabilities", "the sink no longer fences by a stored epoch")
	}
	return nil
}
