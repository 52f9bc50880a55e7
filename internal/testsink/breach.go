package testsink

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// Breach is a way to break the contract, from the n-th unit on.
type Breach struct {
	What string
	From int64
}

// What a breach may be.
const (
	BreachWrongLSN = "wrong_lsn" // OK with a position that was not asked for; the unit is stored
	BreachRefuse   = "refuse"    // UNIT_REJECTED, nothing stored
	BreachPanic    = "panic"     // a panic in the handler, nothing stored
)

func parseBreach(text string) (Breach, error) {
	if text == "" {
		return Breach{}, nil
	}
	what, from, at := strings.Cut(text, "@")
	b := Breach{What: what, From: 1}
	if at {
		n, err := strconv.ParseInt(from, 10, 64)
		if err != nil || n < 1 {
			return b, fmt.Errorf("%s: the ordinal is a number from 1 on", EnvBreach)
		}
		b.From = n
	}
	switch what {
	case BreachWrongLSN, BreachRefuse, BreachPanic:
		return b, nil
	}
	return b, fmt.Errorf("%s is %s, %s or %s", EnvBreach, BreachWrongLSN, BreachRefuse, BreachPanic)
}

// breaker breaks the contract at units, which it counts.
type breaker struct {
	Breach
	units atomic.Int64
}

// around runs a unit's call.
func (b *breaker) around(ctx context.Context, request any, next func(context.Context, any) (any, error)) (any, error) {
	if b.What == "" || b.units.Add(1) < b.From {
		return next(ctx, request)
	}
	switch b.What {
	case BreachRefuse:
		return nil, &core.Refusal{Reason: core.ReasonUnitRejected, Text: "refused on request"}
	case BreachPanic:
		panic("breach on request")
	}
	response, err := next(ctx, request)
	switch r := response.(type) {
	case *sinkv1.HandleTransactionResponse:
		wrong(r.CheckpointLsn)
	case *sinkv1.HandleBatchResponse:
		wrong(r.CheckpointLsn)
	case *sinkv1.HandleMessageResponse:
		wrong(r.CheckpointLsn)
	case *sinkv1.HandleSnapshotCompleteResponse:
		wrong(r.CheckpointLsn)
	}
	return response, err
}

func wrong(lsn *uint64) {
	if lsn != nil {
		*lsn++
	}
}
