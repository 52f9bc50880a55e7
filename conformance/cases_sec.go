package conformance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
		Title:  "plain text to a TLS port; a wrong CA; no client certificate",
		Reason: "a sink on a network is written to by whoever reaches it",
		Expect: "no answer of a handler", Cause: "a port that takes both", Run: secTransport,
	},
	{
		ID: "SEC-002", Level: Must, Profile: TLS, Needs: NeedTLS,
		Title:  "a missing and a wrong bearer token",
		Reason: "a token that is not compared is decoration",
		Expect: "UNAUTHENTICATED", Cause: "it is compared in one handler", Run: secToken,
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

// reaches reports how a call ends over this transport.
func (t *Trial) reaches(c credentials.TransportCredentials, token string) *answer {
	l, err := dial(t.session.o.Target.Address(), t.seen, grpc.WithTransportCredentials(c))
	t.need(err)
	defer l.close()
	ctx, cancel := context.WithTimeout(t.ctx, 5*time.Second)
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	_, err = l.sink.GetCapabilities(ctx, &sinkv1.GetCapabilitiesRequest{})
	return refusal(err)
}

func secTransport(t *Trial) {
	wrong, err := t.session.o.TLS.credentials(func(c *tls.Config) { c.RootCAs = x509.NewCertPool() })
	t.need(err)
	ways := map[string]credentials.TransportCredentials{"plain text": insecure.NewCredentials(), "a wrong CA": wrong}
	if t.session.o.TLS.ClientCert != "" {
		bare, err := t.session.o.TLS.credentials(func(c *tls.Config) { c.Certificates = nil })
		t.need(err)
		ways["no client certificate"] = bare
	}
	for _, name := range sortedKeys(ways) {
		if a := t.reaches(ways[name], t.session.o.TLS.Token); a.Code != codes.Unavailable && a.Code != codes.DeadlineExceeded {
			t.differs("a call with "+name+" reaches a handler", "no connection", a.Error())
		}
	}
}

func secToken(t *Trial) {
	if t.session.o.TLS.Token == "" {
		t.inapplicable("no token was given")
	}
	c, err := t.session.o.TLS.credentials(nil)
	t.need(err)
	for _, token := range []string{"", "wrong"} {
		if a := t.reaches(c, token); a.Code != codes.Unauthenticated {
			t.differs("a call with a missing or wrong token is answered", "UNAUTHENTICATED", a.Error())
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
	a := t.reaches(c, wrong)
	for _, where := range []string{a.message, t.session.o.Target.Output()} {
		if strings.Contains(where, wrong) || strings.Contains(where, t.session.o.TLS.Token) {
			t.failed("a credential is repeated in a status or in the output")
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
