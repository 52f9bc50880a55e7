package wal

import (
	"context"
	"net"
	"os"
	"time"
)

// socket is the connection below the protocol, and below TLS where there is any. Until
// the stream begins it passes everything through. Then it pauses before reads that
// would block while traffic is dense, and under TLS it reads ahead into a buffer of its
// own, since TLS hands out one record at a time.
type socket struct {
	net.Conn
	nap       napper
	streaming bool
	// ahead is set under TLS only: bytes read and not yet asked for are ahead[from:to].
	ahead    []byte
	from, to int
	// dry makes Read answer a timeout instead of touching the network.
	dry bool
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

func dialSocket(dial dialFunc, nap bool) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &socket{Conn: conn, nap: napper{off: !nap}}, nil
	}
}

// stream begins the reading of frames. It must not run beside Read.
func (s *socket) stream(readAhead bool) {
	s.streaming = true
	s.Conn = offPoller(s.Conn)
	if readAhead {
		s.ahead = make([]byte, bufferSize)
	}
}

// Read fills p with what is there.
func (s *socket) Read(p []byte) (int, error) {
	if !s.streaming {
		return s.Conn.Read(p)
	}
	if s.ahead == nil {
		return s.fetch(p)
	}
	if s.from == s.to {
		if s.dry {
			return 0, os.ErrDeadlineExceeded
		}
		n, err := s.fetch(s.ahead)
		s.from, s.to = 0, n
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, s.ahead[s.from:s.to])
	s.from += n
	return n, nil
}

func (s *socket) fetch(p []byte) (int, error) {
	s.nap.before()
	n, err := s.Conn.Read(p)
	s.nap.after(n == len(p))
	return n, err
}

// watchfulDialer is a dialer whose connections notice a peer that is gone: the writes
// of the status timer must be acknowledged by the other kernel in time. A server that
// is merely busy acknowledges.
func watchfulDialer(timeout time.Duration) dialFunc {
	d := &net.Dialer{
		Timeout: timeout,
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
		},
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			tuneTCP(tcp)
		}
		return conn, nil
	}
}
