package sink

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

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// signed is a certificate and its key, with the same as files.
type signed struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	certFile    string
	keyFile     string
}

// sign makes a certificate, by itself where by is nil.
func sign(t *testing.T, name string, by *signed) *signed {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	out := &signed{key: key}
	if by == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		by = &signed{c, key, "", ""}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by.certificate, key.Public(), by.key)
	require.NoError(t, err)
	out.certificate, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	file := func(kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), "pem")
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	out.certFile, out.keyFile = file("CERTIFICATE", der), file("PRIVATE KEY", secret)
	return out
}

// TestTransportCases runs the suite's cases about TLS and tokens against a sink that the SDK
// serves with a client certificate and a bearer token.
func TestTransportCases(t *testing.T) {
	const token = "the token"
	authority := sign(t, "authority", nil)
	server, client := sign(t, "sink", authority), sign(t, "sidecar", authority)
	pair, err := tls.LoadX509KeyPair(server.certFile, server.keyFile)
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	trusted.AddCert(authority.certificate)
	guarded := []Option{
		WithTLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert}),
		WithBearerToken(func(told string) bool { return told == token }),
	}
	dir, err := os.MkdirTemp("", "tls")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	target := conformance.NewServer("unix:"+filepath.Join(dir, "s"), func(ctx context.Context, address string) error {
		return Serve(ctx, address, FromStore("guarded", "1", newMemStore(), StoreOptions{}), guarded...)
	})
	t.Cleanup(func() { require.NoError(t, target.Stop(context.Background())) })
	sum := conformance.Test(t, target, conformance.Options{
		Profiles: []conformance.Profile{conformance.TLS},
		TLS: &conformance.Transport{
			CA: authority.certFile, ClientCert: client.certFile, ClientKey: client.keyFile, Token: token,
		},
	})
	require.Len(t, sum.Results, 3)
	for _, r := range sum.Results {
		require.Equal(t, conformance.Pass, r.Verdict, "%s: %s", r.ID, r.Why)
	}
}
