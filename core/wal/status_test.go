package wal_test

import (
	"context"
	mathrand "math/rand/v2"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// last is the newest status update; it must name one number three times.
func (s script) last(t testing.TB) waltest.Status {
	t.Helper()
	all := s.stream.Statuses()
	require.NotEmpty(t, all)
	told := all[len(all)-1]
	require.Equal(t, told.Flush, told.Write)
	require.Equal(t, told.Flush, told.Apply)
	return told
}

// read reads until n frames came.
func (s script) read(t testing.TB, n int) []wal.Frame {
	t.Helper()
	var all []wal.Frame
	for len(all) < n {
		var b wal.Batch
		require.NoError(t, s.conn.Read(t.Context(), &b))
		all = append(all, b.Frames...)
	}
	require.Len(t, all, n)
	return all
}

func TestStatusGoesOutWhileNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t)
		begun := time.Now()
		time.Sleep(time.Hour)
		synctest.Wait()
		const third = 10 * time.Second / 3
		all := s.stream.Statuses()
		require.GreaterOrEqual(t, len(all), int(time.Hour/third)-1)
		before := begun
		for _, told := range all {
			require.LessOrEqual(t, told.At.Sub(before), third.Truncate(time.Millisecond)+time.Millisecond)
			require.EqualValues(t, floor, told.Flush, "before the first Confirm the floor is repeated")
			before = told.At
		}
		require.LessOrEqual(t, time.Since(before), third)
	})
}

func TestStatusIntervalIsTheSmallerOne(t *testing.T) {
	for name, c := range map[string]struct {
		senderTimeout string
		want          time.Duration
	}{"short patience": {"6000", 2 * time.Second}, "long": {"60000", 5 * time.Second}, "endless": {"0", 5 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := waltest.NewServer(waltest.State{SenderTimeout: c.senderTimeout})
				defer server.Close()
				conn, err := wal.Connect(t.Context(), scriptedOptions(server))
				require.NoError(t, err)
				defer conn.Close()
				require.NoError(t, conn.Start(t.Context(), at, floor))
				stream, err := server.Stream(t.Context())
				require.NoError(t, err)
				time.Sleep(c.want - time.Millisecond)
				synctest.Wait()
				require.Empty(t, stream.Statuses())
				time.Sleep(time.Millisecond)
				synctest.Wait()
				require.Len(t, stream.Statuses(), 1)
			})
		})
	}
}

func TestReplyIsSentAtOnceAndAgainWhenThePositionCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t)
		require.NoError(t, s.stream.Keepalive(0x3000, true))
		require.True(t, s.read(t, 1)[0].ReplyRequested)
		synctest.Wait()
		require.Len(t, s.stream.Statuses(), 1)
		require.EqualValues(t, floor, s.last(t).Flush)
		// The server waits for 0x3000, so each step towards it is told at once.
		s.conn.Confirm(0x2800)
		synctest.Wait()
		require.EqualValues(t, 0x2800, s.last(t).Flush)
		s.conn.Confirm(0x3000)
		synctest.Wait()
		require.EqualValues(t, 0x3000, s.last(t).Flush)
		require.Len(t, s.stream.Statuses(), 3)
		require.Equal(t, s.stream.Statuses()[0].At, s.last(t).At, "no time may pass")
	})
}

func TestConfirmWaitsForTheTimerOrFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t)
		require.NoError(t, s.stream.Data(0x3000, []byte("x")))
		s.read(t, 1)
		s.conn.Confirm(0x3000)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, s.stream.Statuses())
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 0x3000, s.last(t).Flush)

		require.NoError(t, s.stream.Data(0x4000, []byte("x")))
		s.read(t, 1)
		s.conn.Confirm(0x4000)
		require.NoError(t, s.conn.Flush(t.Context()))
		synctest.Wait()
		require.EqualValues(t, 0x4000, s.last(t).Flush)
	})
}

// The first position may be ahead of the stream, as an earlier owner got further. The
// server is never told more than it has sent.
func TestFirstConfirmAheadOfTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t)
		s.conn.Confirm(0x5000)
		told := func(want core.LSN) {
			t.Helper()
			require.NoError(t, s.conn.Flush(t.Context()))
			synctest.Wait()
			require.EqualValues(t, want, s.last(t).Flush)
		}
		told(at)
		require.NoError(t, s.stream.Data(0x4000, []byte("x")))
		s.read(t, 1)
		told(0x4000)
		require.NoError(t, s.stream.Keepalive(0x6000, false))
		s.read(t, 1)
		told(0x5000)
		require.NoError(t, s.conn.Err())
	})
}

func TestBreachesOfOrderHalt(t *testing.T) {
	for name, confirm := range map[string][]core.LSN{
		"zero first":           {0},
		"zero later":           {0x3000, 0},
		"falls":                {0x3000, 0x2fff},
		"falls, not yet told":  {0x3000, 0x2fff},
		"below the floor":      {floor - 1},
		"above what came":      {0x3000, 0x3001},
		"above, after a first": {0x2000, 0x3001},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := scripted(t)
				require.NoError(t, s.stream.Data(0x3000, []byte("x")))
				s.read(t, 1)
				for _, lsn := range confirm[:len(confirm)-1] {
					s.conn.Confirm(lsn)
					require.NoError(t, s.conn.Err())
				}
				if name != "falls, not yet told" {
					require.NoError(t, s.conn.Flush(t.Context()))
				}
				synctest.Wait()
				before := s.stream.Statuses()

				reading := make(chan error)
				go func() { reading <- s.conn.Read(t.Context(), &wal.Batch{}) }()
				synctest.Wait()
				s.conn.Confirm(confirm[len(confirm)-1])
				halt := haltOf(t, s.conn.Err(), core.HaltInvariant)
				require.Equal(t, strings.HasPrefix(name, "zero"), strings.Contains(halt.Detail, "zero"))
				haltOf(t, <-reading, core.HaltInvariant)
				haltOf(t, s.conn.Flush(t.Context()), core.HaltInvariant)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, before, s.stream.Statuses(), "nothing moves after a halt")
			})
		})
	}
}

func TestConfirmBeforeTheStreamHalts(t *testing.T) {
	server := waltest.NewServer(waltest.State{})
	defer server.Close()
	conn, err := wal.Connect(t.Context(), scriptedOptions(server))
	require.NoError(t, err)
	defer conn.Close()
	haltOf(t, conn.Flush(t.Context()), core.HaltInvariant)
	haltOf(t, conn.Finish(t.Context()), core.HaltInvariant)
	haltOf(t, conn.Read(t.Context(), &wal.Batch{}), core.HaltInvariant)
	require.NoError(t, conn.Err())
	conn.Confirm(at)
	haltOf(t, conn.Err(), core.HaltInvariant)
}

func TestStartRefusesZero(t *testing.T) {
	server := waltest.NewServer(waltest.State{})
	defer server.Close()
	conn, err := wal.Connect(t.Context(), scriptedOptions(server))
	require.NoError(t, err)
	defer conn.Close()
	haltOf(t, conn.Start(t.Context(), 0, floor), core.HaltInvariant)
	haltOf(t, conn.Start(t.Context(), at, 0), core.HaltInvariant)
	require.NoError(t, conn.Start(t.Context(), at, floor))
}

func TestFinishTellsEndsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t)
		require.NoError(t, s.stream.Data(0x3000, []byte("x")))
		s.read(t, 1)
		s.conn.Confirm(0x3000)
		var rest []byte
		for range 20_000 { // frames that come too late
			rest = waltest.AppendData(rest, 0x4000, []byte("late"))
		}
		go func() { _ = s.stream.Raw(rest) }()
		require.NoError(t, s.conn.Finish(t.Context()))
		require.EqualValues(t, 0x3000, s.last(t).Flush)
		require.ErrorIs(t, s.conn.Read(t.Context(), &wal.Batch{}), wal.ErrClosed)
		require.ErrorIs(t, s.conn.Flush(t.Context()), wal.ErrClosed)
	})
}

func TestFinishIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var reader = make(chan error)
		reading, stop := context.WithCancel(t.Context())
		go func() { reader <- s.conn.Read(reading, &wal.Batch{}) }()
		synctest.Wait()
		require.ErrorIs(t, s.conn.Finish(ctx), context.DeadlineExceeded, "a Read that waits is not overtaken")
		stop()
		require.ErrorIs(t, <-reader, context.Canceled)
	})
}

func TestWriteThatBlocksLosesTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *stalling
		s := scripted(t, func(o *wal.Options) {
			dial := o.DialFunc
			o.DialFunc = func(ctx context.Context, network, address string) (c net.Conn, err error) {
				c, err = dial(ctx, network, address)
				conn = &stalling{Conn: c}
				return conn, err
			}
		})
		conn.stall.Store(true)
		begun := time.Now()
		require.ErrorIs(t, s.conn.Read(t.Context(), &wal.Batch{}), wal.ErrConnectionLost)
		require.Less(t, time.Since(begun), 20*time.Second)
	})
}

// stalling is a connection whose peer stops reading.
type stalling struct {
	net.Conn
	stall    atomic.Bool
	deadline atomic.Int64
}

func (s *stalling) SetWriteDeadline(t time.Time) error {
	s.deadline.Store(t.UnixNano())
	return s.Conn.SetWriteDeadline(t)
}

func (s *stalling) Write(p []byte) (int, error) {
	if !s.stall.Load() {
		return s.Conn.Write(p)
	}
	time.Sleep(time.Until(time.Unix(0, s.deadline.Load())))
	return 0, os.ErrDeadlineExceeded
}

// What comes late may be cut anywhere and of any size.
func TestFinishWalksOverLateFrames(t *testing.T) {
	seed := mathrand.Uint64()
	t.Logf("seed %d", seed)
	s := scripted(t, func(o *wal.Options) {
		dial := o.DialFunc
		o.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			return &chopping{Conn: c, random: mathrand.New(mathrand.NewPCG(seed, 3))}, err
		}
	})
	require.NoError(t, s.stream.Data(0x3000, []byte("x")))
	s.read(t, 1)
	var late []byte
	for size := range 300 {
		late = waltest.AppendData(late, 1, make([]byte, size*size))
		late = waltest.AppendKeepalive(late, 1, true)
	}
	go func() { _ = s.stream.Raw(late) }()
	require.NoError(t, s.conn.Finish(bounded(t)))
}
