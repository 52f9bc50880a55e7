package conformance

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

var secCases = []Case{
	{
		ID: "SEC-001", Level: Must, Profile: TLS, Needs: NeedTLS,
		Title:  "plain text to a TLS port; a wrong CA; no client certificate, and one of another CA",
		Reason: "a sink on a network is written to by whoever reaches it",
		Expect: "no answer of a handler", Cause: "a port that takes both", Run: secTransport,
	},
	{
		ID: "SEC-002", Level: Must, Profile: TLS, Needs: NeedTLS,
		Title:  "a missing and a wrong bearer token",
		Reason: "a token that is not compared is decoration",
		Expect: "UNAUTHENTICATED from each call", Cause: "it is compared in one handler, or in unary calls alone", Run: secToken,
	},
}

// credentials are those of the options; edit changes them.
func (t *Transport) credentials(edit func(*tls.Config)) (credentials.TransportCredentials, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		text, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM(text)
	}
	if t.ClientCert != "" {
		pair, err := tls.LoadX509KeyPair(t.ClientCert, t.ClientKey)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if edit != nil {
		edit(c)
	}
	return credentials.NewTLS(c), nil
}

// reach makes one call of each kind over this transport, and gives how each ended. A stream
// passes other guards than a unary call.
func (t *Trial) reach(c credentials.TransportCredentials, token string) map[string]*answer {
	l, err := dial(t.session.o.Target.Address(), t.seen, grpc.WithTransportCredentials(c))
	t.need(err)
	defer l.close()
	ctx, cancel := context.WithTimeout(t.ctx, 5*time.Second)
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	_, err = l.sink.GetCapabilities(ctx, &sinkv1.GetCapabilitiesRequest{})
	ends := map[string]*answer{"GetCapabilities": refusal(err)}
	if t.has(sinkv1.Capability_CAPABILITY_CHECKPOINT) {
		_, err = l.sink.Checkpoint(ctx, &sinkv1.CheckpointRequest{StreamId: t.schema, Source: t.unclaimed("").source})
		ends["Checkpoint"] = refusal(err)
	}
	if t.has(sinkv1.Capability_CAPABILITY_LARGE_TRANSACTION) {
		frames, err := l.sink.HandleLargeTransaction(ctx)
		if err == nil {
			_, err = frames.CloseAndRecv()
		}
		ends["HandleLargeTransaction"] = refusal(err)
	}
	return ends
}

func secTransport(t *Trial) {
	o := t.session.o.TLS
	wrong, err := o.credentials(func(c *tls.Config) { c.RootCAs = x509.NewCertPool() })
	t.need(err)
	ways := map[string]credentials.TransportCredentials{"in plain text": insecure.NewCredentials(), "under a wrong CA": wrong}
	if o.ClientCert != "" {
		other, err := stranger()
		t.need(err)
		ways["without a client certificate"], err = o.credentials(func(c *tls.Config) { c.Certificates = nil })
		t.need(err)
		ways["with a client certificate of another CA"], err = o.credentials(func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return other, nil }
		})
		t.need(err)
	}
	for _, name := range sortedKeys(ways) {
		ends := t.reach(ways[name], o.Token)
		for _, call := range sortedKeys(ends) {
			if a := ends[call]; a.Code != codes.Unavailable && a.Code != codes.DeadlineExceeded {
				t.differs(call+" "+name+" reaches a handler", "no connection", a.Error())
			}
		}
	}
}

// stranger is a client certificate that nobody signed.
func stranger() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stranger"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func secToken(t *Trial) {
	if t.session.o.TLS.Token == "" {
		t.inapplicable("no token was given")
	}
	c, err := t.session.o.TLS.credentials(nil)
	t.need(err)
	for name, token := range map[string]string{"without a token": "", "with a wrong token": "wrong"} {
		ends := t.reach(c, token)
		for _, call := range sortedKeys(ends) {
			if a := ends[call]; a.Code != codes.Unauthenticated {
				t.differs(call+" "+name+" is answered", "UNAUTHENTICATED", a.Error())
			}
		}
	}
}

func piiToken(t *Trial) {
	if t.session.o.TLS.Token == "" {
		t.inapplicable("no token was given")
	}
	c, err := t.session.o.TLS.credentials(nil)
	t.need(err)
	const wrong = "wrong-credential-canary"
	var said []string
	for _, token := range []string{wrong, t.session.o.TLS.Token} {
		for _, a := range t.reach(c, token) {
			said = append(said, a.message)
		}
	}
	for where, text := range map[string]string{"a status": strings.Join(said, "\n"), "what the sink prints": t.session.o.Target.Output()} {
		if strings.Contains(text, wrong) || strings.Contains(text, t.session.o.TLS.Token) {
			t.failed("a token is repeated in %s", where)
		}
	}
}

// bearer sends a token with each call, and nothing where there is none.
type bearer string

// GetRequestMetadata is the header.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if b == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity reports that a token is not sent in plain text.
func (b bearer) RequireTransportSecurity() bool { return true }
