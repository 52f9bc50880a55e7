package wal_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal"
	"github.com/replicant-sidecar/replicant-sidecar/core/wal/waltest"
)

// secret stands in every text that the scripted server sends.
const secret = "SECRET-VALUE"

// chain is the text of an error and all its causes.
func chain(err error) string {
	var b strings.Builder
	for err != nil {
		b.WriteString(err.Error())
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			break
		}
		err = u.Unwrap()
	}
	return b.String()
}

// answers runs a step against a server that refuses it.
type answer struct {
	code    string
	routine string
	message string
	want    core.HaltCode // or lost, or busy
}

const (
	lost  core.HaltCode = "lost"
	busy  core.HaltCode = "busy"
	waits core.HaltCode = "waits"
)

func (a answer) error() *waltest.Error {
	return &waltest.Error{Code: a.code, Routine: a.routine, Message: a.message + " " + secret}
}

func (a answer) check(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	require.NotContains(t, chain(err), secret)
	switch a.want {
	case lost:
		require.ErrorIs(t, err, wal.ErrConnectionLost)
	case busy:
		require.ErrorIs(t, err, wal.ErrSlotBusy)
	case waits:
		require.ErrorIs(t, err, wal.ErrSlotWaits)
	default:
		haltOf(t, err, a.want)
		require.Contains(t, err.Error(), a.code)
	}
}

func TestStartupErrors(t *testing.T) {
	for _, a := range []answer{
		{code: "28000", routine: "ClientAuthentication", want: core.HaltSourceRights},
		{code: "28P01", want: core.HaltSourceRights},
		{code: "42501", want: core.HaltSourceRights},
		{code: "08P01", message: "unsupported startup parameter", want: core.HaltSourcePooler},
		{code: "53300", want: core.HaltSlotsExhausted},
		{code: "57P03", want: lost},
		{code: "25006", want: lost},
		{code: "57P01", want: lost},
		{code: "08006", want: lost},
		{code: "3D000", want: core.HaltSourceRefused},
		{code: "42704", want: core.HaltSourceRefused},
		{code: "22023", want: core.HaltSourceRefused},
		{code: "XX000", want: core.HaltSourceRefused},
	} {
		t.Run(a.code, func(t *testing.T) {
			server := waltest.NewServer(waltest.State{RefuseStartup: func(map[string]string) *waltest.Error {
				e := a.error()
				e.Severity = "FATAL"
				return e
			}})
			defer server.Close()
			options := scriptedOptions(server)
			options.SenderTimeout = time.Second
			begun := time.Now()
			_, err := wal.Connect(t.Context(), options)
			a.check(t, err)
			require.Equal(t, a.code == "42704", strings.Contains(err.Error(), "misspelt"), "%v", err)
			require.Equal(t, a.code == "53300", time.Since(begun) > time.Second, "only a walsender may come free")
			if a.code == "53300" {
				a.want = lost // an ordinary connection is no walsender
			}
			_, err = wal.OpenCatalog(t.Context(), scriptedOptions(server))
			a.check(t, err)
		})
	}
}

func refusing(prefix string, a answer) waltest.State {
	return waltest.State{Refuse: func(query string) *waltest.Error {
		if strings.HasPrefix(query, prefix) {
			return a.error()
		}
		return nil
	}}
}

func connected(t *testing.T, state waltest.State) *wal.Conn {
	t.Helper()
	server := waltest.NewServer(state)
	t.Cleanup(server.Close)
	conn, err := wal.Connect(t.Context(), scriptedOptions(server))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestCreateErrors(t *testing.T) {
	for _, a := range []answer{
		{code: "55000", want: core.HaltWALLevel},
		{code: "53400", want: core.HaltSlotsExhausted},
		{code: "42501", want: core.HaltSourceRights},
		{code: "42710", want: core.HaltSourceRefused},
		{code: "57P01", want: lost},
		{code: "40001", want: lost},
		{code: "XX000", want: core.HaltSourceRefused},
		{code: "55P03", want: waits},
		{code: "25006", want: lost},
	} {
		t.Run(a.code, func(t *testing.T) {
			_, err := connected(t, refusing("CREATE_REPLICATION_SLOT", a)).CreateSlot(t.Context())
			a.check(t, err)
		})
	}
}

// A standby whose primary removes what a query still sees ends the query: the next one sees
// what is left.
func TestConflictWithRecovery(t *testing.T) {
	for _, code := range []string{"40001", "40P01"} {
		a := answer{code: code, want: lost}
		server := waltest.NewServer(refusing("SELECT", a))
		defer server.Close()
		catalog, err := wal.OpenCatalog(t.Context(), scriptedOptions(server))
		if err == nil {
			_, err = catalog.CurrentLSN(t.Context())
		}
		a.check(t, err)
		_, err = connected(t, refusing("IDENTIFY_SYSTEM", a)).Identify(t.Context())
		a.check(t, err)
	}
}

func TestIdentifyAtAPooler(t *testing.T) {
	a := answer{code: "42601", want: core.HaltSourcePooler}
	_, err := connected(t, refusing("IDENTIFY_SYSTEM", a)).Identify(t.Context())
	a.check(t, err)
	_, err = connected(t, waltest.State{Reply: func(q string) ([][]string, bool) {
		return [][]string{{"1"}}, q == "IDENTIFY_SYSTEM"
	}}).Identify(t.Context())
	haltOf(t, err, core.HaltSourcePooler)
}

func TestPoolersAreKnownAtConnect(t *testing.T) {
	for name, state := range map[string]waltest.State{
		"settings dropped": {Unset: "extra_float_digits"},
		"no version":       {Version: "-"},
		"odd version":      {Version: "pooler"},
	} {
		t.Run(name, func(t *testing.T) {
			server := waltest.NewServer(state)
			defer server.Close()
			_, err := wal.Connect(t.Context(), scriptedOptions(server))
			haltOf(t, err, core.HaltSourcePooler)
			_, err = wal.OpenCatalog(t.Context(), scriptedOptions(server))
			haltOf(t, err, core.HaltSourcePooler)
		})
	}
}

func TestOldServers(t *testing.T) {
	server := waltest.NewServer(waltest.State{Version: "13.22"})
	defer server.Close()
	_, err := wal.Connect(t.Context(), scriptedOptions(server))
	haltOf(t, err, core.HaltServerUnsupported)
}

// The slot's state in the catalog decides what a refused start means.
func TestStartErrors(t *testing.T) {
	good := waltest.Slot{Plugin: "pgoutput", Type: "logical", Database: "source", WALStatus: "reserved"}
	with := func(f func(*waltest.Slot)) *waltest.Slot {
		s := good
		f(&s)
		return &s
	}
	for name, c := range map[string]struct {
		answer
		slot *waltest.Slot
	}{
		"missing":        {answer{code: "42704", want: core.HaltSlotMissing}, nil},
		"lost":           {answer{code: "55000", want: core.HaltSlotInvalidated}, with(func(s *waltest.Slot) { s.WALStatus = "lost" })},
		"idle too long":  {answer{code: "55000", want: core.HaltSlotInvalidated}, with(func(s *waltest.Slot) { s.Invalidation = "idle_timeout" })},
		"other database": {answer{code: "55000", want: core.HaltSlotDatabase}, with(func(s *waltest.Slot) { s.Database = "other" })},
		"other plugin":   {answer{code: "22023", want: core.HaltSlotPlugin}, with(func(s *waltest.Slot) { s.Plugin = "wal2json" })},
		"physical":       {answer{code: "55000", want: core.HaltSlotPlugin}, with(func(s *waltest.Slot) { s.Type = "physical" })},
		"nothing wrong":  {answer{code: "55000", want: core.HaltSourceRefused}, &good},
		"busy":           {answer{code: "55006", want: busy}, with(func(s *waltest.Slot) { s.Active, s.ActivePID = true, "99" })},
	} {
		t.Run(name, func(t *testing.T) {
			state := refusing("START_REPLICATION", c.answer)
			state.Slot = c.slot
			conn := connected(t, state)
			err := conn.Start(t.Context(), at, floor)
			if c.want == core.HaltSlotDatabase || c.want == core.HaltSlotPlugin || c.want == core.HaltSlotInvalidated {
				require.Contains(t, chain(err), c.code)
				haltOf(t, err, c.want)
				return
			}
			c.check(t, err)
			if c.want == busy {
				var holder *wal.SlotBusyError
				require.ErrorAs(t, err, &holder)
				require.EqualValues(t, 99, holder.PID)
				require.Equal(t, "s", holder.Slot)
			}
			// The connection is as good as before.
			_, err = conn.Identify(t.Context())
			require.NoError(t, err)
		})
	}
}

func TestStreamErrors(t *testing.T) {
	for _, a := range []answer{
		{code: "42704", message: `publication "p" does not exist`, want: core.HaltPublicationMissing},
		{code: "42704", routine: "get_publication_oid", want: core.HaltPublicationMissing},
		{code: "42704", routine: "something_else", want: core.HaltSourceRefused},
		{code: "0A000", want: core.HaltSourceRefused},
		{code: "53100", want: core.HaltSourceRefused},
		{code: "57P02", want: lost},
		{code: "08003", want: lost},
		{code: "22P05", want: core.HaltSourceRefused},
	} {
		t.Run(a.code+a.routine, func(t *testing.T) {
			s := scripted(t)
			require.NoError(t, s.stream.Fail(*a.error()))
			a.check(t, s.conn.Read(t.Context(), &wal.Batch{}))
		})
	}
}

func TestValidate(t *testing.T) {
	good := wal.Options{DSN: waltest.DSN, Slot: "a_1", Publications: []string{`we"ird 'name'`}}
	require.NoError(t, good.Validate())
	for name, c := range map[string]struct {
		change func(*wal.Options)
		want   core.HaltCode
	}{
		"address":       {func(o *wal.Options) { o.DSN = "postgres://u:" + secret + "@h:port/db" }, core.HaltConfigInvalid},
		"no slot":       {func(o *wal.Options) { o.Slot = "" }, core.HaltInvalidIdentifier},
		"upper case":    {func(o *wal.Options) { o.Slot = "Slot" }, core.HaltInvalidIdentifier},
		"long slot":     {func(o *wal.Options) { o.Slot = strings.Repeat("s", 64) }, core.HaltInvalidIdentifier},
		"none":          {func(o *wal.Options) { o.Publications = nil }, core.HaltInvalidIdentifier},
		"empty":         {func(o *wal.Options) { o.Publications = []string{"p", ""} }, core.HaltInvalidIdentifier},
		"long":          {func(o *wal.Options) { o.Publications = []string{strings.Repeat("p", 64)} }, core.HaltInvalidIdentifier},
		"with NUL byte": {func(o *wal.Options) { o.Publications = []string{"p\x00"} }, core.HaltInvalidIdentifier},
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			c.change(&o)
			err := o.Validate()
			haltOf(t, err, c.want)
			require.NotContains(t, chain(err), secret)
			_, err = wal.Connect(t.Context(), o)
			haltOf(t, err, c.want)
		})
	}
}
