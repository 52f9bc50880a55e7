package sink

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// A stop lets the call in progress end.
func TestGracefulStop(t *testing.T) {
	ctx := within(t)
	entered, release := make(chan struct{}), make(chan struct{})
	s := start(t, &stub{handle: func(_ context.Context, u *core.Unit) (core.Ack, error) {
		close(entered)
		<-release
		return core.Ack{Checkpoint: u.Checkpoint}, nil
	}})
	answered := make(chan error, 1)
	go func() { _, err := s.HandleTransaction(ctx, request(1, 1, 1, nil)); answered <- err }()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	select {
	case <-stopped:
		t.Fatal("stopped with a call in progress")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	require.NoError(t, <-answered)
	require.NoError(t, <-stopped)
}

func TestSignals(t *testing.T) {
	address := "unix:" + filepath.Join(t.TempDir(), "sink")
	entered, release := make(chan struct{}, 1), make(chan struct{})
	s := &stub{handle: func(_ context.Context, u *core.Unit) (core.Ack, error) {
		entered <- struct{}{}
		<-release
		return core.Ack{Checkpoint: u.Checkpoint}, nil
	}}
	signals := make(chan os.Signal, 2)
	ended := make(chan error, 1)
	go func() { ended <- run(signals, address, s, []Option{WithGrace(10 * time.Second)}) }()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	require.NoError(t, err)
	answered := make(chan error, 1)
	go func() {
		_, err := sinkv1.NewSinkServiceClient(conn).HandleTransaction(within(t), request(1, 1, 1, nil))
		answered <- err
	}()
	<-entered
	signals <- syscall.SIGTERM
	select {
	case <-ended:
		t.Fatal("the first signal cut a call off")
	case <-time.After(50 * time.Millisecond):
	}
	signals <- syscall.SIGTERM
	require.ErrorIs(t, <-ended, ErrAborted)
	close(release)
	require.NoError(t, <-answered)
	require.NoError(t, conn.Close())

	go func() { ended <- run(signals, address, s, nil) }()
	signals <- os.Interrupt
	require.NoError(t, <-ended)
	require.ErrorIs(t, run(signals, "", s, nil), ErrNoAddress)
}

func TestListenAddresses(t *testing.T) {
	o := resolve(nil)
	for address, want := range map[string]error{"": ErrNoAddress, "unix:": ErrNoAddress, "0.0.0.0:0": ErrPlainTCP, ":0": ErrPlainTCP, "192.0.2.1:0": ErrPlainTCP} {
		_, err := listen(address, o)
		require.ErrorIs(t, err, want, address)
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0", "[::1]:0"} {
		listener, err := listen(address, o)
		if err != nil && strings.HasPrefix(address, "[::1]") {
			continue // no IPv6 here
		}
		require.NoError(t, err, address)
		require.NoError(t, listener.Close())
	}
	path := filepath.Join(t.TempDir(), "sink")
	listener, err := listen("unix://"+path, o)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, err = listen("unix:"+path, o)
	require.ErrorIs(t, err, ErrInUse)
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // as a kill leaves it
	require.NoError(t, listener.Close())
	listener, err = listen("unix:"+path, o)
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = listen("unix:"+path, o)
	require.Error(t, err, "a file that is no socket is not replaced")
}
