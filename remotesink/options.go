package remotesink

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// ProgressTimeoutDefault is how long a stream of frames may stand still.
const ProgressTimeoutDefault = core.CallTimeoutDefault

// Options say where the sink is and how to speak to it.
type Options struct {
	// Address is "unix:/path", "unix:///path" or "host:port".
	Address string
	// TLS is used as it is. TLSFiles, where TLS is nil, names files that are read anew
	// when they change. With neither, TCP is plain and only to loopback addresses.
	TLS      *tls.Config
	TLSFiles TLSFiles
	// Insecure allows plain TCP to an address that is not loopback.
	Insecure bool
	// TokenFile holds a bearer token, sent with every call and read anew when it
	// changes.
	TokenFile string
	// Version is our own version, told to the sink for its log.
	Version string
	// Logger gets one line per call at debug level; nil logs nothing.
	Logger *slog.Logger
	// Registerer gets the metrics of the calls; nil counts nothing.
	Registerer prometheus.Registerer
	// ProgressTimeout ends a stream of frames that stands still; 0 is the default.
	ProgressTimeout time.Duration
	// DialContext replaces the network, for tests.
	DialContext func(ctx context.Context, address string) (net.Conn, error)
}

// Faults of the options.
var (
	ErrNoAddress = errors.New("sink address is empty; want unix:/path or host:port")
	ErrPlainTCP  = errors.New("sink address is not loopback: use TLS, or allow plain TCP explicitly")
	ErrTwoTLS    = errors.New("both a TLS configuration and TLS files are given")
)

// endpoint is a parsed address.
type endpoint struct{ network, address string }

func parseAddress(address string) (endpoint, error) {
	path, isUnix := strings.CutPrefix(address, "unix:")
	if isUnix {
		if rest, hasAuthority := strings.CutPrefix(path, "//"); hasAuthority {
			path = rest
		}
		if path == "" {
			return endpoint{}, ErrNoAddress
		}
		return endpoint{"unix", path}, nil
	}
	if address == "" {
		return endpoint{}, ErrNoAddress
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return endpoint{}, errors.New("sink address is neither unix:/path nor host:port")
	}
	if host == "" {
		host = "localhost"
	}
	return endpoint{"tcp", net.JoinHostPort(host, port)}, nil
}

// isLocal reports whether nobody else can listen in: a unix socket or loopback.
func (e endpoint) isLocal() bool {
	if e.network == "unix" {
		return true
	}
	host, _, _ := net.SplitHostPort(e.address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (o *Options) check() (endpoint, error) {
	at, err := parseAddress(o.Address)
	if err != nil {
		return at, err
	}
	if o.TLS != nil && o.TLSFiles.any() {
		return at, ErrTwoTLS
	}
	if o.TLS == nil && !o.TLSFiles.any() && !at.isLocal() && !o.Insecure {
		return at, ErrPlainTCP
	}
	return at, o.TLSFiles.check()
}
