package cases_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// authority is a private CA.
type authority struct {
	s           *scene
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func (s *scene) authority(name string) *authority {
	s.Helper()
	a := &authority{s: s}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(s, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	require.NoError(s, err)
	a.certificate, err = x509.ParseCertificate(der)
	require.NoError(s, err)
	return a
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// issue makes a certificate and its key, both in PEM.
func (a *authority) issue(name string, hosts []net.IP, until time.Time) (certificate, key []byte) {
	a.s.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.s, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: hosts,
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	require.NoError(a.s, err)
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(a.s, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// give writes a file that is the server's.
func (s *scene) give(name string, content []byte) {
	s.Helper()
	path := filepath.Join(s.db.Server.DataDir(), name)
	owner, err := os.Stat(s.db.Server.DataDir())
	require.NoError(s, err)
	require.NoError(s, os.WriteFile(path, content, 0o600))
	stat := owner.Sys().(*syscall.Stat_t)
	require.NoError(s, os.Chown(path, int(stat.Uid), int(stat.Gid)))
}

// reload makes the server read its files, and returns when it has.
func (s *scene) reload() {
	s.Helper()
	before := s.app.one("select pg_conf_load_time()")
	s.sql("select pg_reload_conf()")
	s.eventually("the server has read its files", func() bool { return s.session("postgres", pinned).one("select pg_conf_load_time()") != before })
}

// tlsScene is a server whose certificates change, and roads to it by TCP.
type tlsScene struct {
	*scene
	dir string
}

func (s tlsScene) file(name string, content []byte) string {
	path := filepath.Join(s.dir, name)
	require.NoError(s, os.WriteFile(path, content, 0o600))
	return path
}

func (s tlsScene) over(q url.Values) func(*pipeline.Options) {
	u, err := url.Parse(s.db.Server.TCPDSN(s.db.Name))
	require.NoError(s, err)
	u.RawQuery = q.Encode()
	return func(o *pipeline.Options) { o.Source.DSN = u.String() }
}

func (s tlsScene) refused(why string, q url.Values, code core.HaltCode, says string) {
	s.Helper()
	halt := s.road(way{waits: true, adjust: s.over(q)}).halts(code)
	require.Contains(s, halt.Error(), says, why)
}

func (s tlsScene) serve(certificate, key []byte) {
	s.Helper()
	s.give("server.crt", certificate)
	s.give("server.key", key)
	s.reload()
}

func TestC01TLS(t *testing.T) {
	loopback := []net.IP{net.IPv4(127, 0, 0, 1)}
	eachSpare(t, 14, func(plain *scene) {
		s := tlsScene{plain, plain.TempDir()}
		s.sql("create table c01(id int primary key)")
		soon := time.Now().Add(time.Hour)
		ours, theirs := s.authority("ours"), s.authority("theirs")
		root := s.file("root", ours.pem())
		wish := url.Values{"sslmode": {"verify-full"}, "sslrootcert": {root}}
		s.refused("no TLS", url.Values{"sslmode": {"require"}}, core.HaltSourceRefused, "does not offer TLS")
		s.refused("no TLS", wish, core.HaltSourceRefused, "does not offer TLS")
		s.sql("alter system set ssl = on")
		s.serve(theirs.issue("server", loopback, soon))
		s.refused("another CA", wish, core.HaltSourceRefused, "certificate")
		s.serve(ours.issue("elsewhere", nil, soon))
		s.refused("another host", wish, core.HaltSourceRefused, "certificate")
		s.serve(ours.issue("server", loopback, time.Now().Add(-time.Minute)))
		s.refused("expired", wish, core.HaltSourceRefused, "certificate")

		// A client certificate is demanded.
		hba, err := os.ReadFile(filepath.Join(s.db.Server.DataDir(), "pg_hba.conf"))
		require.NoError(s, err)
		s.Cleanup(func() { s.give("pg_hba.conf", hba) })
		s.give("pg_hba.conf", append([]byte("hostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n"), hba...))
		s.give("clients.crt", ours.pem())
		s.sql("alter system set ssl_ca_file = 'clients.crt'")
		s.serve(ours.issue("server", loopback, soon))
		s.refused("no client certificate", wish, core.HaltSourceRights, "")
		mine, key := ours.issue("postgres", nil, soon)
		wish.Set("sslcert", s.file("mine", mine))
		wish.Set("sslkey", s.file("key", key))
		s.roads = nil
		r := s.road(way{adjust: s.over(wish)})
		require.Equal(s, "0", s.app.one("select count(*) from pg_stat_activity a join pg_stat_ssl s using (pid) where a.datname=current_database() and not s.ssl and a.client_addr is not null"),
			"every connection is of one kind")
		require.Equal(s, "2", s.app.one("select count(*) from pg_stat_activity a join pg_stat_ssl s using (pid) where a.datname=current_database() and s.ssl"),
			"the stream's and the catalog's")

		// Everything is replaced on disk, and then the connection is lost.
		other := s.authority("next")
		mine, key = other.issue("postgres", nil, soon)
		s.file("root", other.pem())
		s.file("mine", mine)
		s.file("key", key)
		s.give("clients.crt", other.pem())
		s.serve(other.issue("server", loopback, soon))
		before := r.pipeline.Status().Sessions
		s.sql("select pg_terminate_backend(active_pid) from pg_replication_slots where active and slot_name=" + literal(r.slot))
		r.status("it is back, with the new files", func(st pipeline.Status) bool {
			return st.Sessions > before && st.State == pipeline.StateStreaming
		})
		s.done()
	})
}
