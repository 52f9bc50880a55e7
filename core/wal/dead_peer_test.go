package wal_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
)

// deadPeer answers every read as the kernel does once it has given the other side up.
type deadPeer struct {
	net.Conn
	dead atomic.Bool
}

func (d *deadPeer) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if d.dead.Load() {
		return 0, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ETIMEDOUT}
	}
	return n, err
}

// A peer that the kernel gave up is a lost connection, though its error calls itself a
// timeout as our own deadlines do.
func TestDeadPeerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var peer *deadPeer
		s := scripted(t, func(o *wal.Options) {
			dial := o.DialFunc
			o.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				peer = &deadPeer{Conn: conn}
				return peer, err
			}
		})
		time.AfterFunc(time.Second, func() {
			peer.dead.Store(true)
			s.stream.Cut()
		})
		var b wal.Batch
		require.ErrorIs(t, s.conn.Read(t.Context(), &b), wal.ErrConnectionLost)
	})
}
