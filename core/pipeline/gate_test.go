package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint"
)

// row is a store that is never asked.
type row struct{ checkpoint.Store }

func TestModeIsWishedOfferedAndFenced(t *testing.T) {
	const checkpoint, one, batch, message = core.CapCheckpoint, core.CapTransaction, core.CapBatch, core.CapMessage
	list := func(c ...core.Capability) []core.Capability { return c }
	for name, c := range map[string]struct {
		has      []core.Capability
		fence    core.Fencing
		wish     Mode
		messages bool
		store    int // 0 none; else how many transactions a write
		unfenced bool
		mode     Mode
		halt     core.HaltCode
	}{
		"auto, both":              {has: list(checkpoint, one, batch), mode: ModeBatch},
		"auto, one":               {has: list(checkpoint, one), mode: ModeTransaction},
		"auto, neither":           {has: list(checkpoint), halt: core.HaltInvalidSink},
		"transaction":             {has: list(checkpoint, one, batch), wish: ModeTransaction, mode: ModeTransaction},
		"transaction, lacking":    {has: list(checkpoint, batch), wish: ModeTransaction, halt: core.HaltInvalidSink},
		"batch":                   {has: list(checkpoint, batch), wish: ModeBatch, mode: ModeBatch},
		"batch, lacking":          {has: list(checkpoint, one), wish: ModeBatch, halt: core.HaltBatchUnsupported},
		"no checkpoint":           {has: list(one, batch), fence: core.FencingInstance, halt: core.HaltInvalidSink},
		"messages":                {has: list(checkpoint, one, message), messages: true, mode: ModeTransaction},
		"messages, lacking":       {has: list(checkpoint, one), messages: true, halt: core.HaltMessagesUnsupported},
		"store":                   {has: list(one), fence: core.FencingInstance, store: 1, mode: ModeLib},
		"store, batched":          {has: list(one), fence: core.FencingInstance, store: 2, mode: ModeLibBatched},
		"store, no fence":         {has: list(one), store: 1, halt: core.HaltFencingRequired},
		"store, the other fence":  {has: list(one), fence: core.FencingStored, store: 1, halt: core.HaltFencingRequired},
		"store, accepted":         {has: list(one), store: 1, unfenced: true, mode: ModeLib},
		"store, no transaction":   {has: list(batch), fence: core.FencingInstance, store: 1, halt: core.HaltInvalidSink},
		"store, messages lacking": {has: list(one), fence: core.FencingInstance, store: 1, messages: true, halt: core.HaltMessagesUnsupported},
		"store and batch":         {has: list(one, batch), fence: core.FencingInstance, wish: ModeBatch, store: 1, halt: core.HaltConfigInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{AcceptUnfenced: c.unfenced, StoreBatch: c.store, Delivery: Delivery{Mode: c.wish}}
			o.Source.Messages = c.messages
			if c.store > 0 {
				o.Store = row{}
			}
			caps := core.Capabilities{Set: core.NewCapabilitySet(c.has...), Fencing: []core.Fencing{c.fence}}
			mode, err := resolveMode(o, caps)
			if c.halt != "" {
				require.Equal(t, c.halt, haltCode(t, err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.mode, mode)
		})
	}
}
