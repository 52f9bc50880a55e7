package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type rig struct {
	*Server
	status atomic.Pointer[pipeline.Status]
	dead   atomic.Bool
}

func serve(t *testing.T, pprof bool) *rig {
	t.Helper()
	r := &rig{}
	r.status.Store(&pipeline.Status{State: pipeline.StateStarting, Slot: "s", StreamID: "s"})
	s, err := Start(Options{
		Listen: "127.0.0.1:0", Pprof: pprof, Status: func() pipeline.Status { return *r.status.Load() },
		Alive: func(context.Context) error {
			if r.dead.Load() {
				return errors.New("no answer")
			}
			return nil
		},
		ProgressDeadline: time.Minute, Version: "v1", Registry: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close(); http.DefaultClient.CloseIdleConnections() })
	r.Server = s
	return r
}

func (r *rig) get(t *testing.T, path string) (int, string) {
	t.Helper()
	response, err := http.Get(r.URL() + path)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func TestReadyIsProgressAndNotMereLife(t *testing.T) {
	now := time.Now()
	halt := core.NewHalt(core.HaltSlotAhead, "judge", "by 8 bytes")
	working := func(ago time.Duration) pipeline.Status {
		return pipeline.Status{State: pipeline.StateCatchingUp, Received: 20, Durable: 10, InFlight: true, LastProgress: now.Add(-ago)}
	}
	idle := pipeline.Status{State: pipeline.StateStreaming, Received: 20, Durable: 20, LastProgress: now.Add(-time.Hour)}
	fresh := pipeline.Status{State: pipeline.StateCatchingUp, Received: 20, Durable: 10, InFlight: true}
	for _, c := range []struct {
		name    string
		status  pipeline.Status
		standby bool
		ready   bool
		why     string
	}{
		{"starting", pipeline.Status{State: pipeline.StateStarting}, false, false, "starting"},
		{"no sink", pipeline.Status{State: pipeline.StateSinkUnavailable, Reason: "sink away"}, false, false, "sink away"},
		{"no source", pipeline.Status{State: pipeline.StateSourceAway}, false, false, "source_unavailable"},
		{"draining", pipeline.Status{State: pipeline.StateDraining}, false, false, "draining"},
		{"stopped", pipeline.Status{State: pipeline.StateStopped}, false, false, "stopped"},
		{"halted", pipeline.Status{State: pipeline.StateHalted, LastHalt: halt}, true, false, "slot_ahead"},
		{"standby", pipeline.Status{State: pipeline.StateStandby}, false, false, "holds the slot"},
		{"standby counts", pipeline.Status{State: pipeline.StateStandby}, true, true, "holds the slot"},
		{"idle for an hour", idle, false, true, "durable"},
		{"a copy that reads nothing", pipeline.Status{State: pipeline.StateStreaming, Copy: &pipeline.CopyStatus{Failing: "no connection"}}, false, false, "no connection"},
		{"moving", working(30 * time.Second), false, true, "moved 30s ago"},
		{"stuck", working(61 * time.Second), false, false, "has not moved"},
		{"nothing durable yet", fresh, false, false, "nothing was durable yet"},
		{"no state at all", pipeline.Status{}, false, false, ""},
	} {
		ready, why := Ready(c.status, now, time.Minute, c.standby)
		require.Equal(t, c.ready, ready, c.name)
		require.Contains(t, why, c.why, c.name)
	}
}

func TestProbes(t *testing.T) {
	r := serve(t, false)
	code, _ := r.get(t, "/startedz")
	require.Equal(t, 200, code, "needs no sink")
	code, _ = r.get(t, "/livez")
	require.Equal(t, 200, code, "needs no sink")
	code, text := r.get(t, "/readyz?verbose")
	require.Equal(t, 503, code)
	require.Contains(t, text, "starting")
	r.status.Store(&pipeline.Status{State: pipeline.StateStreaming})
	code, text = r.get(t, "/readyz")
	require.Equal(t, 200, code)
	require.Equal(t, "ready\n", text)
	r.status.Store(&pipeline.Status{State: pipeline.StateStandby})
	code, _ = r.get(t, "/readyz?standby=ok")
	require.Equal(t, 200, code)
	r.dead.Store(true)
	code, _ = r.get(t, "/livez")
	require.Equal(t, 503, code)
}

func TestThePortOnlyReads(t *testing.T) {
	r := serve(t, false)
	for _, path := range []string{"/", "/livez", "/statusz", "/metrics", "/drain"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, "PATCH", "TRACE"} {
			request, err := http.NewRequest(method, r.URL()+path, nil)
			require.NoError(t, err)
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			_ = response.Body.Close()
			require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode, method+path)
		}
	}
	code, _ := r.get(t, "/nothing")
	require.Equal(t, 404, code)
	code, _ = r.get(t, "/debug/pprof/")
	require.Equal(t, 404, code, "off unless asked for")
	code, _ = serve(t, true).get(t, "/debug/pprof/")
	require.Equal(t, 200, code)
}

// A page under a stranger's name that resolves to loopback gets nothing.
func TestStrangersNameIsRefusedOnLoopback(t *testing.T) {
	r := serve(t, false)
	require.True(t, r.Loopback())
	for host, want := range map[string]int{"evil.example": 403, "127.0.0.1.evil.example:80": 403, "localhost": 200, "[::1]:9464": 200, "127.0.0.1": 200} {
		request, err := http.NewRequest(http.MethodGet, r.URL()+"/statusz", nil)
		require.NoError(t, err)
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		_ = response.Body.Close()
		require.Equal(t, want, response.StatusCode, host)
	}
}

func halted() *pipeline.Status {
	halt := core.NewHalt(core.HaltSlotAhead, "judge", "by <b>8</b> bytes")
	return &pipeline.Status{
		State: pipeline.StateHalted, Slot: "s", StreamID: "st", LastHalt: halt, Durable: 0x16_0000_0001,
		Sink:  core.Capabilities{Name: "<script>alert(1)</script>\xff", Set: core.NewCapabilitySet(core.CapBatch), Kind: core.AppendLog},
		Epoch: 7, LagBytes: 5 << 20,
	}
}

func TestStatusz(t *testing.T) {
	r := serve(t, false)
	r.status.Store(halted())
	code, text := r.get(t, "/statusz")
	require.Equal(t, 200, code)
	var raw map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &raw))
	require.Equal(t, "16/1", raw["durable"])
	require.Equal(t, "halted", raw["state"])
	require.Equal(t, false, raw["ready"])
	halt, _ := raw["last_halt"].(map[string]any)
	require.Equal(t, "slot_ahead", halt["code"])
	require.EqualValues(t, core.ExitHalted, halt["exit_code"])
	require.NotEmpty(t, halt["do"])
}

func TestPageEscapesAndLoadsNothing(t *testing.T) {
	r := serve(t, false)
	r.status.Store(halted())
	code, text := r.get(t, "/")
	require.Equal(t, 200, code)
	require.NotContains(t, text, "<script")
	require.Contains(t, text, "&lt;script&gt;")
	require.NotContains(t, text, "<b>8</b>")
	require.Contains(t, text, "5.0 MiB")
	require.Contains(t, text, "What to do:")
	require.NotRegexp(t, `(src|href)="(https?:)?//`, text)
}

func TestMetrics(t *testing.T) {
	status := halted()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newCollector(func() pipeline.Status { return *status }, "v1"))
	families, err := registry.Gather()
	require.NoError(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	r := serve(t, false)
	r.status.Store(status)
	code, text := r.get(t, "/metrics")
	require.Equal(t, 200, code)
	for _, want := range []string{
		`replicant_state{state="halted"} 1`, `replicant_state{state="streaming"} 0`, `replicant_halted{code="slot_ahead"} 1`,
		"replicant_durable_lsn 9.4489280513e+10", "replicant_lag_bytes 5.24288e+06", "replicant_epoch 7", "replicant_transactions_total 0",
	} {
		require.Contains(t, text, want)
	}
}

func TestAddressInUse(t *testing.T) {
	r := serve(t, false)
	_, err := Start(Options{Listen: strings.TrimPrefix(r.URL(), "http://"), Logger: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, "in use")
}
