package pipeline

import "github.com/replicant-sidecar/replicant-sidecar/core"

// resolveMode turns the wish and what the sink advertises into the mode of the session,
// or into the start error that says what is missing. It runs before the slot is
// touched.
func resolveMode(wish Mode, caps core.Capabilities) (Mode, error) {
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

func missing(code core.HaltCode, wish Mode, capability core.Capability) error {
	return core.NewHalt(code, "GetCapabilities", "delivery.mode %s needs %s, which the sink does not advertise", wish, capability)
}

// inUse is the set of capabilities whose loss while running halts.
func inUse(mode Mode, caps core.Capabilities) core.CapabilitySet {
	used := core.NewCapabilitySet(core.CapCheckpoint)
	if mode == ModeBatch {
		used |= core.NewCapabilitySet(core.CapBatch)
	} else {
		used |= core.NewCapabilitySet(core.CapTransaction)
	}
	for _, optional := range []core.Capability{core.CapLargeTransaction, core.CapSessionIdentity, core.CapSlotOrigin} {
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
