package badsinks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// guard is what a guarded sink asks of its callers.
type guard struct {
	files   conformance.Transport
	server  tls.Certificate
	trusted *x509.CertPool
	printed printed
}

// printed is what a sink with a defect prints.
type printed struct {
	mu   sync.Mutex
	text strings.Builder
}

func (p *printed) add(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(&p.text, line)
}

// String is all of it.
func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// Transport is what a caller of a guarded sink needs; nil of others.
func (p *Process) Transport() *conformance.Transport {
	if p.guard == nil {
		return nil
	}
	return &p.guard.files
}

// guards are the options of the server.
func (p *Process) guards() []grpc.ServerOption {
	g := p.guard
	if g == nil {
		return nil
	}
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{g.server},
		ClientCAs: g.trusted, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	switch p.defect {
	case TakesAnyCertificate:
		c.ClientAuth = tls.RequireAnyClientCert
	case TakesNoCertificate:
		c.ClientAuth = tls.NoClientCert
	}
	creds := credentials.NewTLS(c)
	if p.defect == TakesPlainText {
		creds = either{creds}
	}
	return []grpc.ServerOption{
		grpc.Creds(creds),
		grpc.UnaryInterceptor(func(ctx context.Context, q any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := p.known(ctx, path.Base(info.FullMethod)); err != nil {
				return nil, err
			}
			return next(ctx, q)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := p.known(stream.Context(), ""); err != nil && p.defect != TokenUnaryOnly {
				return err
			}
			return next(srv, stream)
		}),
	}
}

// known compares the token.
func (p *Process) known(ctx context.Context, call string) error {
	m, _ := metadata.FromIncomingContext(ctx)
	told := strings.Join(m.Get("authorization"), " ")
	if p.defect == TokenInOutput {
		p.guard.printed.add("authorization: " + told)
	}
	switch {
	case told == "Bearer "+p.guard.files.Token, p.defect == TakesAnyToken, p.defect == TokenOnceOnly && call != "GetCapabilities":
		return nil
	case p.defect == TokenInStatus:
		return status.Error(codes.Unauthenticated, "not valid: "+told)
	}
	return status.Error(codes.Unauthenticated, "no valid token")
}

// either takes plain text where a connection does not begin as TLS does.
type either struct {
	credentials.TransportCredentials
}

// ServerHandshake looks at the first byte.
func (e either) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	first := make([]byte, 1)
	if _, err := raw.Read(first); err != nil {
		return nil, nil, err
	}
	whole := &begun{raw, first}
	const handshake = 22 // the type of a TLS record
	if first[0] == handshake {
		return e.TransportCredentials.ServerHandshake(whole)
	}
	return whole, nil, nil
}

// begun is a connection whose first byte was read.
type begun struct {
	net.Conn
	first []byte
}

// Read gives the first byte again.
func (b *begun) Read(into []byte) (int, error) {
	if len(b.first) == 0 {
		return b.Conn.Read(into)
	}
	n := copy(into, b.first)
	b.first = b.first[n:]
	return n, nil
}

// newGuard makes an authority, certificates of both sides, and a token, as files.
func newGuard(dir string) (*guard, error) {
	g := &guard{trusted: x509.NewCertPool()}
	g.files = conformance.Transport{
		CA: filepath.Join(dir, "ca.pem"), ClientCert: filepath.Join(dir, "client.pem"), ClientKey: filepath.Join(dir, "client.key"),
		Token: "token-of-the-reference-sink",
	}
	authority, err := newAuthority()
	if err != nil {
		return nil, err
	}
	g.trusted.AddCert(authority.certificate)
	if g.server, err = authority.issue("localhost"); err != nil {
		return nil, err
	}
	client, err := authority.issue("sidecar")
	if err != nil {
		return nil, err
	}
	return g, authority.write(g.files, client)
}
