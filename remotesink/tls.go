package remotesink

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// TLSFiles names PEM files. They are looked at with every handshake and read anew when
// one of them changed, so that certificates can be renewed under a running sidecar.
type TLSFiles struct {
	// CA holds the roots that the sink's certificate must lead to; empty takes the
	// system's.
	CA string
	// Cert and Key are our own certificate, for a sink that asks for one.
	Cert, Key string
	// ServerName is the name that the sink's certificate must hold; empty takes the
	// host of the address, or "localhost" for a unix socket.
	ServerName string
}

func (f TLSFiles) any() bool { return f != TLSFiles{} }

func (f TLSFiles) check() error {
	if (f.Cert == "") != (f.Key == "") {
		return errors.New("a TLS certificate needs its key, and a key its certificate")
	}
	return nil
}

// config makes a client configuration that follows the files. The usual verification is
// switched off only because verify does the same with the roots of the moment.
func (f TLSFiles) config(host string) (*tls.Config, error) {
	files := &watchedFiles{TLSFiles: f}
	if files.ServerName == "" {
		files.ServerName = host
	}
	if _, _, err := files.load(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         files.ServerName,
		InsecureSkipVerify: true, //nolint:gosec // verify follows
		VerifyConnection:   files.verify,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			_, own, err := files.load()
			return own, err
		},
	}, nil
}

// watchedFiles keeps what was read together with the times at which the files changed.
type watchedFiles struct {
	TLSFiles
	mu    sync.Mutex
	stamp string
	roots *x509.CertPool
	own   *tls.Certificate
}

func (w *watchedFiles) verify(state tls.ConnectionState) error {
	roots, _, err := w.load()
	if err != nil {
		return err
	}
	if len(state.PeerCertificates) == 0 {
		return errors.New("the sink showed no certificate")
	}
	options := x509.VerifyOptions{Roots: roots, DNSName: w.ServerName, Intermediates: x509.NewCertPool()}
	for _, certificate := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(certificate)
	}
	_, err = state.PeerCertificates[0].Verify(options)
	return err
}

// load reads the files if they changed. While a new version cannot be read (one of two
// files is being replaced, say), what was read last stays in use.
func (w *watchedFiles) load() (*x509.CertPool, *tls.Certificate, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	stamp := fileStamp(w.CA, w.Cert, w.Key)
	if stamp == w.stamp {
		return w.roots, w.own, nil
	}
	roots, own, err := w.read()
	if err != nil {
		if w.stamp != "" {
			return w.roots, w.own, nil
		}
		return nil, nil, err
	}
	w.stamp, w.roots, w.own = stamp, roots, own
	return roots, own, nil
}

func (w *watchedFiles) read() (*x509.CertPool, *tls.Certificate, error) {
	var roots *x509.CertPool
	own := &tls.Certificate{}
	if w.CA != "" {
		pem, err := os.ReadFile(w.CA)
		if err != nil {
			return nil, nil, err
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(pem) {
			return nil, nil, fmt.Errorf("no certificate in %s", w.CA)
		}
	}
	if w.Cert != "" {
		pair, err := tls.LoadX509KeyPair(w.Cert, w.Key)
		if err != nil {
			return nil, nil, fmt.Errorf("certificate and key in %s and %s do not make a pair", w.Cert, w.Key)
		}
		own = &pair
	}
	return roots, own, nil
}

// fileStamp changes when one of the files does.
func fileStamp(names ...string) string {
	stamp := "read"
	for _, name := range names {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			stamp += " gone"
			continue
		}
		stamp += fmt.Sprintf(" %s/%d", info.ModTime().Format(time.RFC3339Nano), info.Size())
	}
	return stamp
}
