package wire_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/remotesink"
	sink "github.com/replicant-sidecar/replicant-sidecar/sdk/go"
)

// authority signs certificates for tests.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, serial: 1}
	template := a.template("authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	a.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return a
}

func (a *authority) template(name string) *x509.Certificate {
	a.serial++
	return &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// issue makes a certificate and its key as PEM.
func (a *authority) issue(name string) (certificate, key []byte) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	der, err := x509.CreateCertificate(rand.Reader, a.template(name), a.certificate, &private.PublicKey, a.key)
	require.NoError(a.t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// serveTLS serves with a certificate of the authority and asks clients for one.
func serveTLS(t *testing.T, a *authority, name string) (address string) {
	certificate, key := a.issue(name)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert}
	go func() { served <- sink.ServeListener(ctx, listener, noop{}, sink.WithTLS(config)) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-served) })
	return listener.Addr().String()
}

func TestTLSFilesAreFollowed(t *testing.T) {
	old, renewed := newAuthority(t), newAuthority(t)
	folder := t.TempDir()
	files := remotesink.TLSFiles{
		CA: filepath.Join(folder, "ca"), Cert: filepath.Join(folder, "cert"), Key: filepath.Join(folder, "key"), ServerName: "sink.example",
	}
	install := func(a *authority) {
		certificate, key := a.issue("sidecar")
		require.NoError(t, os.WriteFile(files.CA, a.pem(), 0o600))
		require.NoError(t, os.WriteFile(files.Cert, certificate, 0o600))
		require.NoError(t, os.WriteFile(files.Key, key, 0o600))
	}
	install(old)
	ask := func(address string, files remotesink.TLSFiles) error {
		remote, err := remotesink.New(remotesink.Options{Address: address, TLSFiles: files})
		require.NoError(t, err)
		defer func() { require.NoError(t, remote.Close()) }()
		_, err = remote.Capabilities(timed(t))
		return err
	}
	first := serveTLS(t, old, "sink.example")
	require.NoError(t, ask(first, files))

	wrongName := files
	wrongName.ServerName = "other.example"
	failure := sinkFailure(t, ask(first, wrongName))
	require.Equal(t, core.ClassAway, failure.Class)
	require.True(t, failure.NeverSent)
	stranger := serveTLS(t, renewed, "sink.example")
	require.Error(t, ask(stranger, files), "a certificate of another authority")
	withoutOwn := files
	withoutOwn.Cert, withoutOwn.Key = "", ""
	require.Error(t, ask(first, withoutOwn), "the sink asks for a certificate")

	// One Sink, which finds the renewed files at its next handshake.
	at := first
	remote, err := remotesink.New(remotesink.Options{Address: "sink.example:1", TLSFiles: files, DialContext: func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", at)
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, remote.Close()) }()
	at = stranger
	_, err = remote.Capabilities(timed(t))
	require.Error(t, err)
	require.NoError(t, os.WriteFile(files.Key, []byte("half a file"), 0o600)) // replaced one by one
	install(renewed)
	require.Eventually(t, func() bool { _, err := remote.Capabilities(timed(t)); return err == nil }, 10*time.Second, 20*time.Millisecond)
}
