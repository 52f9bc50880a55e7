package checkpoint

import "github.com/replicant-sidecar/replicant-sidecar/core"

// Ledger keeps the three heights of one session in order: received >= delivered >=
// durable. Only durable can reach Postgres. Each call either keeps the order or
// returns a halt and changes nothing.
type Ledger struct {
	received, delivered, durable core.LSN
}

// NewLedger starts all three heights at the claimed position.
func NewLedger(claimed core.LSN) (*Ledger, error) {
	if claimed == 0 {
		return nil, core.NewHalt(core.HaltInvariant, "ledger", "a session began without a position")
	}
	return &Ledger{claimed, claimed, claimed}, nil
}

// Received notes that a transaction with this end LSN was read from the stream. End
// LSNs rise strictly.
func (l *Ledger) Received(end core.LSN) error {
	if end <= l.received {
		return l.broken("received", end)
	}
	l.received = end
	return nil
}

// Delivered notes that a unit up to this position is on its way to the sink.
func (l *Ledger) Delivered(to core.LSN) error {
	if to < l.delivered || to > l.received {
		return l.broken("delivered", to)
	}
	l.delivered = to
	return nil
}

// NotDone notes that what was delivered and is not durable has certainly not been done:
// the sink found the unit too large. It will be delivered again in other units.
func (l *Ledger) NotDone() { l.delivered = l.durable }

// Durable notes the sink's word for everything up to this position.
func (l *Ledger) Durable(to core.LSN) error {
	if to < l.durable || to > l.delivered {
		return l.broken("durable", to)
	}
	l.durable = to
	return nil
}

// Idle lifts received to the end of WAL that holds nothing for us, which makes an idle
// step lawful. It is refused while anything received is not durable.
func (l *Ledger) Idle(walEnd core.LSN) error {
	if !l.Settled() || walEnd <= l.durable {
		return l.broken("idle", walEnd)
	}
	l.received = walEnd
	return nil
}

// Settled reports whether all that was received is durable.
func (l *Ledger) Settled() bool { return l.received == l.durable }

// Confirmable is the only number that Postgres may be told.
func (l *Ledger) Confirmable() core.LSN { return l.durable }

// ReceivedLSN is the highest end LSN read.
func (l *Ledger) ReceivedLSN() core.LSN { return l.received }

func (l *Ledger) broken(op string, at core.LSN) error {
	h := core.NewHalt(core.HaltInvariant, "ledger", "%s %s does not fit received %s, delivered %s, durable %s",
		op, at, l.received, l.delivered, l.durable)
	h.LSN = at
	return h
}
