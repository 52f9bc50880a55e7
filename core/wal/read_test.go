package wal_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// chopping hands out what it reads in pieces of random size, down to one byte.
type chopping struct {
	net.Conn
	random *mathrand.Rand
}

func (c *chopping) Read(p []byte) (int, error) {
	most := 1 << c.random.IntN(18)
	return c.Conn.Read(p[:min(len(p), 1+c.random.IntN(most))])
}

func selfSigned(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// No byte is lost or changed: frames come back to back with the begin of the copy, cut
// anywhere, of all sizes, into two batches in turn; what the batch before holds stays
// as it was while the next one is filled.
func TestEveryFrameArrivesWhole(t *testing.T) {
	for _, way := range []string{"plain", "chopped", "tls", "tls chopped"} {
		t.Run(way, func(t *testing.T) {
			seed := mathrand.Uint64()
			t.Logf("seed %d", seed)
			random := mathrand.New(mathrand.NewPCG(seed, 1))
			server := waltest.NewServer(waltest.State{})
			t.Cleanup(server.Close)
			options := scriptedOptions(server)
			options.NoNap = false
			if strings.HasPrefix(way, "tls") {
				server.Change(func(s *waltest.State) { s.TLS = selfSigned(t) })
				options.DSN = "postgres://tester@127.0.0.1/source?sslmode=require"
			}
			if strings.HasSuffix(way, "chopped") {
				options.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := server.Dial(ctx, network, address)
					return &chopping{Conn: c, random: mathrand.New(mathrand.NewPCG(seed, 2))}, err
				}
			}
			conn, err := wal.Connect(t.Context(), options)
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })

			var sent [][]byte
			for i := range 3000 {
				size := random.IntN(200)
				if i%500 == 7 {
					size = random.IntN(900_000)
				}
				body := make([]byte, size+1)
				for j := range body {
					body[j] = byte(random.Uint32())
				}
				sent = append(sent, body)
			}
			var b []byte
			for i, body := range sent {
				b = waltest.AppendData(b, uint64(i), body)
			}
			const cut = 1234 // within a frame
			server.Change(func(s *waltest.State) { s.WithCopy = b[:cut] })
			ctx := bounded(t)
			go func() {
				if stream, err := server.Stream(ctx); err == nil {
					_ = stream.Raw(b[cut:])
				}
			}()
			require.NoError(t, conn.Start(ctx, at, floor))
			var batches [2]wal.Batch
			var before [][]byte // what the other batch should still hold
			next := 0
			for turn := 0; next < len(sent); turn++ {
				b := &batches[turn%2]
				require.NoError(t, conn.Read(ctx, b))
				for i, f := range batches[(turn+1)%2].Frames {
					require.True(t, bytes.Equal(before[i], f.Data), "a frame changed while the next batch was read")
				}
				before = before[:0]
				for _, f := range b.Frames {
					require.EqualValues(t, next, f.Start)
					require.Truef(t, bytes.Equal(sent[next], f.Data), "frame %d of %d bytes", next, len(sent[next]))
					before = append(before, sent[next])
					next++
				}
			}
		})
	}
}

func TestReadTakesAllThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t)
		var b []byte
		for i := range 100 {
			b = waltest.AppendData(b, uint64(i), []byte("row"))
		}
		require.NoError(t, s.stream.Raw(b[:len(b)-1]))
		synctest.Wait()
		var batch wal.Batch
		require.NoError(t, s.conn.Read(t.Context(), &batch))
		require.Len(t, batch.Frames, 99)
		require.NoError(t, s.stream.Raw(b[len(b)-1:]))
		require.NoError(t, s.conn.Read(t.Context(), &batch))
		require.Len(t, batch.Frames, 1)
		require.EqualValues(t, 99, batch.Frames[0].Start)
		require.Equal(t, "row", string(batch.Frames[0].Data))
	})
}

func TestCancelledReadLosesNothing(t *testing.T) {
	for _, size := range []int{10, 600_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := scripted(t)
				body := bytes.Repeat([]byte("ab"), size/2)
				frame := waltest.AppendData(nil, 7, body)
				var batch wal.Batch
				for _, cut := range [][]byte{frame[:3], frame[3:9], frame[9 : len(frame)-1]} {
					require.NoError(t, s.stream.Raw(cut))
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					begun := time.Now()
					require.ErrorIs(t, s.conn.Read(ctx, &batch), context.DeadlineExceeded)
					require.Equal(t, time.Second, time.Since(begun))
					require.ErrorIs(t, s.conn.Read(ctx, &batch), context.DeadlineExceeded)
					cancel()
				}
				require.NoError(t, s.stream.Raw(frame[len(frame)-1:]))
				require.NoError(t, s.conn.Read(t.Context(), &batch))
				require.Len(t, batch.Frames, 1)
				require.True(t, bytes.Equal(body, batch.Frames[0].Data))
				require.Less(t, batch.MemoryBytes(), 2*size+(300<<10))
				require.NoError(t, s.stream.Keepalive(8, false))
				require.NoError(t, s.conn.Read(t.Context(), &batch))
				require.Less(t, batch.MemoryBytes(), 300<<10, "a large frame's memory is given back")
			})
		})
	}
}

func TestFramesBeforeAnErrorComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t)
		require.NoError(t, s.stream.Data(1, []byte("x")))
		require.NoError(t, s.stream.Fail(waltest.Error{Severity: "FATAL", Code: "57P01", Message: "terminating"}))
		synctest.Wait()
		s.read(t, 1)
		err := s.conn.Read(t.Context(), &wal.Batch{})
		require.ErrorIs(t, err, wal.ErrConnectionLost)
		require.Contains(t, err.Error(), "57P01")
		require.Equal(t, err, s.conn.Err())
	})
}

func TestEndOfConnectionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t)
		require.NoError(t, s.stream.Raw(waltest.AppendKeepalive(nil, 1, false)[:12]))
		s.stream.Cut()
		require.ErrorIs(t, s.conn.Read(t.Context(), &wal.Batch{}), wal.ErrConnectionLost)
	})
}

func TestNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t)
		require.NoError(t, s.stream.Notice(waltest.Error{Severity: "WARNING", Code: "01000", Message: "whatever"}))
		require.NoError(t, s.stream.Data(1, []byte("x")))
		s.read(t, 1)
		// A walsender that waits for a standby says so with the same SQLSTATE.
		require.NoError(t, s.stream.Notice(waltest.Error{Severity: "WARNING", Code: "55000", Routine: "StandbySlotsHaveCaughtup"}))
		require.NoError(t, s.stream.Data(1, []byte("x")))
		s.read(t, 1)
		// Translated, and by a routine of another name: the SQLSTATE decides.
		require.NoError(t, s.stream.Notice(waltest.Error{Severity: "WARNING", Code: "55000", Message: "Publikation »SECRET« übersprungen"}))
		require.NoError(t, s.stream.Data(2, []byte("x")))
		halt := haltOf(t, s.conn.Read(t.Context(), &wal.Batch{}), core.HaltPublicationMissing)
		require.NotContains(t, halt.Error()+halt.Err.Error(), "SECRET")
	})
}

// A server that shuts down raises that warning to an error: the session ends, and the next
// one finds whoever is there then.
func TestShutdownWhileAStandbyIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t)
		require.NoError(t, s.stream.Fail(waltest.Error{Severity: "ERROR", Code: "55000", Routine: "StandbySlotsHaveCaughtup"}))
		require.ErrorIs(t, s.conn.Read(t.Context(), &wal.Batch{}), wal.ErrConnectionLost)
	})
}

func TestMalformedStreams(t *testing.T) {
	keepalive := waltest.AppendKeepalive(nil, 1, false)
	longer := append(bytes.Clone(keepalive), 0)
	longer[4]++
	oddReply := bytes.Clone(keepalive)
	oddReply[len(oddReply)-1] = 2
	for name, raw := range map[string][]byte{
		"length below 4":       {'d', 0, 0, 0, 3},
		"length above 1 GiB":   {'d', 0x40, 0, 0, 0x1e},
		"length with the sign": {'d', 0xff, 0xff, 0xff, 0xff},
		"empty frame":          {'d', 0, 0, 0, 4},
		"unknown frame":        {'d', 0, 0, 0, 5, 's'},
		"short data":           append([]byte{'d', 0, 0, 0, 4 + 24, 'w'}, make([]byte, 23)...),
		"short keepalive":      append([]byte{'d', 0, 0, 0, 4 + 17, 'k'}, make([]byte, 16)...),
		"long keepalive":       longer,
		"odd reply":            oddReply,
		"row outside the copy": {'D', 0, 0, 0, 6, 0, 0},
		"unknown message":      {0, 0, 0, 0, 4},
		"broken error":         {'E', 0, 0, 0, 6, 'C', 'x'},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := scripted(t)
				require.NoError(t, s.stream.Raw(raw))
				haltOf(t, s.conn.Read(t.Context(), &wal.Batch{}), core.HaltMalformedStream)
			})
		})
	}
}

// The bound itself is allowed, as far as its length goes.
func TestLargestLengthIsNotMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t)
		require.NoError(t, s.stream.Raw([]byte{'d', 0x40, 0, 0, 0x1d, 'w'}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, s.conn.Read(ctx, &wal.Batch{}), context.DeadlineExceeded)
	})
}

func TestConfirmFlushAndReadTogether(t *testing.T) {
	s := scripted(t)
	ctx := bounded(t)
	const n = 2000
	go func() {
		for i := range n {
			_ = s.stream.Keepalive(uint64(at)+uint64(i), i%3 == 0)
		}
	}()
	seen := make(chan core.LSN, n)
	go func() {
		defer close(seen)
		var b wal.Batch
		for got := 0; got < n; got += len(b.Frames) {
			if s.conn.Read(ctx, &b) != nil {
				return
			}
			seen <- b.Frames[len(b.Frames)-1].WALEnd
		}
	}()
	for lsn := range seen {
		s.conn.Confirm(lsn)
		if lsn%7 == 0 {
			require.NoError(t, s.conn.Flush(ctx))
		}
	}
	require.NoError(t, s.conn.Finish(ctx))
	before := uint64(0)
	for _, told := range s.stream.Statuses() {
		require.GreaterOrEqual(t, told.Flush, before)
		before = told.Flush
	}
	require.EqualValues(t, uint64(at)+n-1, before)
}

// TLS hands out one record at a time; what was received is one batch all the same, and
// waiting for more than that would hold back what is there.
func TestTLSDrainsWhatWasReceived(t *testing.T) {
	server := waltest.NewServer(waltest.State{TLS: selfSigned(t)})
	t.Cleanup(server.Close)
	options := scriptedOptions(server)
	options.DSN = "postgres://tester@127.0.0.1/source?sslmode=require"
	conn, err := wal.Connect(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.Start(t.Context(), at, floor))
	stream, err := server.Stream(t.Context())
	require.NoError(t, err)
	const n = 50
	for i := range n {
		require.NoError(t, stream.Keepalive(uint64(i), false)) // a record each
	}
	ctx := bounded(t)
	var b wal.Batch
	begun := time.Now()
	require.NoError(t, conn.Read(ctx, &b))
	require.Len(t, b.Frames, n)
	require.Less(t, time.Since(begun), 5*time.Second)
}
