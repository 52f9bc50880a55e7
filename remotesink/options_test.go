package remotesink

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestAddresses(t *testing.T) {
	for address, want := range map[string]endpoint{
		"unix:/run/sink": {"unix", "/run/sink"}, "unix:///run/sink": {"unix", "/run/sink"}, "unix:rel": {"unix", "rel"},
		"localhost:7000": {"tcp", "localhost:7000"}, ":7000": {"tcp", "localhost:7000"}, "[::1]:7000": {"tcp", "[::1]:7000"},
	} {
		got, err := parseAddress(address)
		require.NoError(t, err, address)
		require.Equal(t, want, got, address)
	}
	for _, address := range []string{"", "unix:", "unix://", "host", "http://host:1", "host:"} {
		_, err := parseAddress(address)
		require.Error(t, err, "%q", address)
	}
}

func TestPlainTCPStaysOnThisMachine(t *testing.T) {
	for address, local := range map[string]bool{
		"unix:/s": true, "127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true,
		"10.0.0.1:1": false, "sink:1": false, "0.0.0.0:1": false, "localhost.example.com:1": false,
	} {
		plain, err := New(Options{Address: address})
		if !local {
			require.ErrorIs(t, err, ErrPlainTCP, address)
			plain, err = New(Options{Address: address, Insecure: true})
		}
		require.NoError(t, err, address)
		require.NoError(t, plain.Close())
	}
	over, err := New(Options{Address: "sink:1", TLS: &tls.Config{MinVersion: tls.VersionTLS12}})
	require.NoError(t, err)
	require.NoError(t, over.Close())
	_, err = New(Options{Address: "sink:1", TLS: &tls.Config{}, TLSFiles: TLSFiles{CA: "ca"}})
	require.ErrorIs(t, err, ErrTwoTLS)
	_, err = New(Options{Address: "sink:1", TLSFiles: TLSFiles{Cert: "cert"}})
	require.Error(t, err)
	_, err = New(Options{Address: "sink:1", TLSFiles: TLSFiles{CA: filepath.Join(t.TempDir(), "none")}})
	require.Error(t, err)
}

func TestTokenFileIsReadAnew(t *testing.T) {
	name := filepath.Join(t.TempDir(), "token")
	file := &tokenFile{name: name}
	token := func() (string, error) {
		metadata, err := file.GetRequestMetadata(context.Background())
		return metadata["authorization"], err
	}
	_, err := token()
	require.Equal(t, codes.Unauthenticated, status.Code(err), "no file")
	require.NoError(t, os.WriteFile(name, []byte("one\n"), 0o600))
	got, err := token()
	require.NoError(t, err)
	require.Equal(t, "Bearer one", got)
	require.NoError(t, os.WriteFile(name, []byte("second"), 0o600))
	got, err = token()
	require.NoError(t, err)
	require.Equal(t, "Bearer second", got)
	for _, content := range []string{"", " \n", "a\nb"} {
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
		_, err = token()
		require.Equal(t, codes.Unauthenticated, status.Code(err), "%q", content)
		require.NotContains(t, err.Error(), "second")
	}
}
