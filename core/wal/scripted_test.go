package wal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// Positions of the scripted streams.
const (
	floor core.LSN = 0x1000
	at    core.LSN = 0x2000
)

// script is a stream whose server side belongs to the test.
type script struct {
	server *waltest.Server
	conn   *wal.Conn
	stream *waltest.Stream
}

func scriptedOptions(server *waltest.Server) wal.Options {
	return wal.Options{DSN: waltest.DSN, Slot: "s", Publications: []string{"p"}, DialFunc: server.Dial, NoNap: true}
}

// scripted starts a stream. Inside a synctest bubble the deferred end must run in it.
func scripted(t testing.TB, change ...func(*wal.Options)) script {
	t.Helper()
	server := waltest.NewServer(waltest.State{})
	options := scriptedOptions(server)
	for _, f := range change {
		f(&options)
	}
	conn, err := wal.Connect(t.Context(), options)
	require.NoError(t, err)
	s := script{server: server, conn: conn}
	t.Cleanup(s.end)
	require.NoError(t, conn.Start(t.Context(), at, floor))
	s.stream, err = server.Stream(t.Context())
	require.NoError(t, err)
	return s
}

func (s script) end() {
	_ = s.conn.Close()
	s.server.Close()
}

// haltOf requires a halt of this code and returns it.
func haltOf(t testing.TB, err error, code core.HaltCode) *core.Halt {
	t.Helper()
	halt, ok := core.AsHalt(err)
	require.Truef(t, ok, "%v (%T) is no halt", err, err)
	require.Equal(t, code, halt.Code, halt.Error())
	return halt
}
