package judge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// Stream is a stream's row at the sink.
type Stream struct {
	Position core.LSN // 0 when none was stored
	Epoch    uint64
	Lineage  string
}

// ReadStream reads the row; found is false when there is none.
func ReadStream(ctx context.Context, sink, stream string) (s Stream, found bool, err error) {
	err = once(ctx, sink, `SELECT coalesce(position, '0/0'), epoch, lineage FROM testsink.stream WHERE stream = $1`,
		func(v [][]byte) (err error) {
			found, s.Lineage = true, string(v[2])
			if s.Epoch, err = strconv.ParseUint(string(v[1]), 10, 64); err != nil {
				return err
			}
			s.Position, err = core.ParseLSN(string(v[0]))
			return err
		}, stream)
	if missing(err) {
		return Stream{}, false, nil
	}
	return s, found, err
}

// Durable reads the position up to which everything is durable, wherever it is kept.
type Durable func(context.Context) (core.LSN, error)

// AtSink is the position of a stream whose checkpoint the sink keeps.
func AtSink(sink, stream string) Durable {
	return func(ctx context.Context) (core.LSN, error) {
		s, _, err := ReadStream(ctx, sink, stream)
		return s.Position, err
	}
}

// Confirmed is what Postgres was told, as the slot has it.
func Confirmed(ctx context.Context, source, slot string) (at core.LSN, err error) {
	found := false
	err = once(ctx, source, `SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = $1`,
		func(v [][]byte) (err error) {
			found = true
			at, err = core.ParseLSN(string(v[0]))
			return err
		}, slot)
	if err == nil && !found {
		err = errors.New("judge: there is no such slot")
	}
	return at, err
}

// Acked is invariant ACK at one moment: the slot is read first, so that a position told
// after it was stored is never taken for one told before.
func Acked(ctx context.Context, source, slot string, durable Durable) (confirmed, stored core.LSN, err error) {
	if confirmed, err = Confirmed(ctx, source, slot); err != nil {
		return 0, 0, err
	}
	if stored, err = durable(ctx); err != nil {
		return confirmed, 0, err
	}
	if confirmed > stored && stored != 0 {
		err = &Breach{fmt.Sprintf("ACK: the slot is confirmed up to %s, durable is %s", confirmed, stored)}
	}
	return confirmed, stored, err
}

// Breach is an invariant that does not hold.
type Breach struct{ What string }

// Error says which, and how.
func (b *Breach) Error() string { return b.What }

// settlePoll is how often a position is looked at while waiting.
const settlePoll = 20 * time.Millisecond

// Settle waits until slot and checkpoint have both reached a position and two samples in
// a row are equal, and returns where they stand. ACK must hold all along.
func Settle(ctx context.Context, source, slot string, until core.LSN, durable Durable) (core.LSN, error) {
	var last core.LSN
	for {
		confirmed, stored, err := Acked(ctx, source, slot, durable)
		switch {
		case err != nil:
			return 0, err
		case confirmed >= until && stored == confirmed && stored == last:
			return stored, nil
		}
		last = stored
		select {
		case <-time.After(settlePoll):
		case <-ctx.Done():
			return stored, fmt.Errorf("judge: not settled at %s: confirmed %s, durable %s: %w", until, confirmed, stored, ctx.Err())
		}
	}
}

// Watch samples ACK and MONO in the background until Stop.
type Watch struct {
	mu       sync.Mutex
	samples  int
	breaches []string
	cancel   context.CancelFunc
	done     chan struct{}
}

// StartWatch begins to sample. A server that is away gives no sample.
func StartWatch(source, slot string, every time.Duration, durable Durable) *Watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watch{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		var highest core.LSN
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				highest = w.sample(ctx, source, slot, highest, durable)
			}
		}
	}()
	return w
}

func (w *Watch) sample(ctx context.Context, source, slot string, highest core.LSN, durable Durable) core.LSN {
	_, stored, err := Acked(ctx, source, slot, durable)
	breach, broken := errors.AsType[*Breach](err)
	if err != nil && !broken {
		return highest
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples++
	if broken {
		w.breaches = append(w.breaches, breach.What)
	}
	if stored < highest {
		w.breaches = append(w.breaches, fmt.Sprintf("MONO: durable went from %s back to %s", highest, stored))
	}
	return max(highest, stored)
}

// Stop ends the sampling and says how often it looked and what did not hold.
func (w *Watch) Stop() (samples int, breaches []string) {
	w.cancel()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.samples, w.breaches
}

// Clean lists what a sink that has settled must not leave at its destination.
func Clean(ctx context.Context, sink string) (left []string, err error) {
	err = once(ctx, sink, `SELECT 'prepared transaction' FROM pg_prepared_xacts WHERE database = current_database()
UNION ALL SELECT 'session ' || coalesce(state, '?') FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'testsink %' AND state LIKE 'idle in transaction%'`,
		func(v [][]byte) error {
			left = append(left, string(v[0]))
			return nil
		})
	return left, err
}
