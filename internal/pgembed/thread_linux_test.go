package pgembed_test

import (
	"context"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed"
)

// onDyingThread runs f on a thread that ends with it. The program's first
// thread never ends, so it is held until f runs elsewhere.
func onDyingThread(f func()) {
	ended := make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if syscall.Gettid() == syscall.Getpid() {
			onDyingThread(f)
			runtime.UnlockOSThread()
			close(ended)
			return
		}
		defer close(ended)
		f()
	}()
	<-ended
}

// The kernel's "your parent died" is about threads: a server must not end with
// the thread that its Start was called on.
func TestServerOutlivesTheThreadOfItsCaller(t *testing.T) {
	var s *pgembed.Server
	var err error
	onDyingThread(func() {
		s, err = pgembed.Start(context.Background(), pgembed.Options{Find: pgembed.FindOptions{Checkout: true}})
	})
	require.NoError(t, err)
	defer s.Close()
	time.Sleep(300 * time.Millisecond) // the signal would come at once
	require.True(t, s.Running())
	require.Equal(t, "1", query(t, s.DSN("postgres"), "SELECT 1"))
}
