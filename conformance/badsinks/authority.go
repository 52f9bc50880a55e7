package badsinks

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"time"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// authority signs certificates for an hour.
type authority struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // never fails
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template("authority")
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &authority{key, certificate}, err
}

// issue signs a new certificate.
func (a *authority) issue(name string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template(name), a.certificate, key.Public(), a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// write makes the files that a client needs.
func (a *authority) write(files conformance.Transport, client tls.Certificate) error {
	key, err := x509.MarshalPKCS8PrivateKey(client.PrivateKey)
	return errors.Join(err,
		writePEM(files.CA, "CERTIFICATE", a.certificate.Raw),
		writePEM(files.ClientCert, "CERTIFICATE", client.Certificate[0]),
		writePEM(files.ClientKey, "PRIVATE KEY", key))
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
