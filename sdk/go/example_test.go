package sink_test

import (
	"context"
	"fmt"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// printer shows every change. It stores nothing, so the sidecar has to keep the
// checkpoint (checkpoint_store).
type printer struct{}

func (printer) Capabilities(context.Context) (core.Capabilities, error) {
	return core.Capabilities{Name: "printer", Version: "1", Kind: core.AppendLog}, nil
}

func (printer) HandleTransaction(_ context.Context, unit *core.Unit) (core.Ack, error) {
	for _, t := range unit.Transactions {
		for _, change := range t.Changes {
			fmt.Println(t.EndLSN, change.Op, change.Relation)
		}
	}
	return core.Ack{Checkpoint: unit.Checkpoint}, nil
}

// A whole program. It serves at the address in REPLICANT_SINK_LISTEN.
func Example() {
	sink.Main(printer{})
}
