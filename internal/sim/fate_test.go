package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// weather is what may happen to calls for a while. Numbers of calls are percentages.
type weather struct {
	name string
	// On the road: the request is lost, the answer is lost, the request arrives long after
	// its caller has gone, or it arrives again.
	lost, mute, late, twice int
	delay                   time.Duration // of what is late, at most
	// At the sink: pauses before and within the work, and answers other than OK.
	slow, hang                         time.Duration
	throttle, tooBig, refuse, internal int
	lie, unreadable                    int
	away                               bool
	// For the sidecar's own store.
	storeAway            bool
	storeLost, storeLate int
}

// permits are the halts that are lawful in it, as no sidecar can know better.
func (f *weather) permits() []core.HaltCode {
	var codes []core.HaltCode
	if f.lost+f.mute+f.late+f.internal > 0 || f.slow > time.Minute || f.hang > 0 {
		codes = append(codes, core.HaltSinkUnknown, core.HaltSinkFailed)
	}
	if f.refuse > 0 {
		codes = append(codes, core.HaltSinkRejected, core.HaltValueUnrepresentable)
	}
	if f.lie > 0 {
		codes = append(codes, core.HaltSinkContract)
	}
	if f.unreadable > 0 {
		codes = append(codes, core.HaltCheckpointUnreadable)
	}
	if f.storeAway || f.storeLost+f.storeLate > 0 {
		codes = append(codes, core.HaltStoreUnavailable)
	}
	return codes
}

var calm = weather{name: "calm", slow: 20 * time.Millisecond}

// weathers to draw from.
func weathers() []weather {
	return []weather{
		{name: "slow", slow: 20 * time.Second},
		{name: "very slow", slow: 3 * time.Minute},
		{name: "lossy", lost: 15, mute: 15, slow: time.Second},
		{name: "late", late: 30, twice: 20, delay: 10 * time.Minute, slow: time.Second},
		{name: "zombies", late: 15, mute: 15, twice: 10, delay: 40 * time.Minute, slow: 100 * time.Second},
		{name: "away", away: true},
		{name: "throttling", throttle: 60, slow: time.Second},
		{name: "short of room", tooBig: 50, slow: time.Second},
		{name: "failing", internal: 20, slow: time.Second},
		{name: "refusing", refuse: 20},
		{name: "lying", lie: 20},
		{name: "unreadable", unreadable: 50, lost: 10},
		{name: "hanging", hang: time.Hour},
		{name: "store away", storeAway: true},
		{name: "store lossy", storeLost: 30, storeLate: 20, delay: 5 * time.Minute},
	}
}

func percent(rng *rand.Rand, n int) bool { return rng.IntN(100) < n }

func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(rng.Int64N(int64(d)))
}

// broken is an answer that says nothing about whether the work was done.
func broken(rng *rand.Rand) error {
	switch rng.IntN(5) {
	case 0:
		return status.Error(codes.Internal, "stream broken")
	case 1:
		return status.Error(codes.Aborted, "aborted")
	case 2:
		return status.Error(codes.DeadlineExceeded, "too late")
	}
	return status.Error(codes.Unavailable, "connection reset")
}

// throttled asks to try again later: with a reason of the contract, or in gRPC's words.
func throttled(rng *rand.Rand) error {
	after := upTo(rng, 20*time.Second)
	if rng.IntN(2) == 0 {
		return &core.Refusal{Reason: core.ReasonNotReady, RetryAfter: after}
	}
	st, err := status.New(codes.ResourceExhausted, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	if err != nil {
		return err
	}
	return st.Err()
}

// road carries a call from a sidecar to the sink and its answer back, through the
// weather. Work that arrives late runs although its caller has gone.
func (w *world) road(ctx context.Context, rng *rand.Rand, arrive func(context.Context) error) error {
	w.mu.Lock()
	f := w.weather
	away, refused := f.away, w.sink.isDown()
	lost, mute, late, twice := percent(rng, f.lost), percent(rng, f.mute), percent(rng, f.late), percent(rng, f.twice)
	outlives := rng.IntN(2) == 0
	delay, failure := upTo(rng, f.delay), broken(rng)
	w.mu.Unlock()
	switch {
	case refused, away && outlives:
		return errNotReached
	case away:
		return errReset
	case lost:
		return failure
	case late:
		w.spawn(func() {
			if sleepOr(delay, w.over) {
				w.mu.Lock()
				w.zombies++
				w.mu.Unlock()
				_ = arrive(w.ctx)
			}
		})
		return failure
	}
	server := ctx // a server may or may not notice that its caller has gone
	if outlives {
		server = w.ctx
	}
	answer := make(chan error, 1)
	w.spawn(func() {
		answer <- arrive(server)
		if twice && sleepOr(delay, w.over) {
			_ = arrive(w.ctx)
		}
	})
	select {
	case err := <-answer:
		if mute {
			return failure
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A call that found nobody, and one whose connection broke.
var (
	errNotReached = status.Error(codes.Unavailable, "connection refused")
	errReset      = status.Error(codes.Unavailable, "connection reset")
)
