package conformance_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/badsinks"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// quick gives options for a reference sink with a defect, or none.
func quick(t *testing.T, v badsinks.Variant, defect badsinks.Defect) conformance.Options {
	t.Helper()
	sink, err := badsinks.New(v, defect)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sink.Close()) })
	return conformance.Options{
		Target: sink, Probe: sink, Crashers: []conformance.Crasher{sink}, Effort: conformance.Quick, Seed: 3,
		Patience: 20 * time.Second,
	}
}

func verdicts(sum *conformance.Summary) map[string]conformance.Verdict {
	out := map[string]conformance.Verdict{}
	for _, r := range sum.Results {
		out[r.ID] = r.Verdict
	}
	return out
}

func TestAFailureSaysWhat(t *testing.T) {
	o := quick(t, badsinks.Full(), badsinks.TwoCommits)
	o.Run = []string{"ATM-001", "VAL-001"}
	o.Command, o.CommandTail = "conf", "-- sink"
	sum, err := conformance.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, conformance.ExitFailures, sum.Exit)
	require.False(t, sum.Conformant)
	r := sum.Results[0]
	require.Equal(t, conformance.Fail, r.Verdict)
	require.Contains(t, r.Failure.Found, "rows are after, the checkpoint is before")
	require.Equal(t, "conf run --run ATM-001 --seed 3 -- sink", r.Reproduce)
	points := r.Crashes[0].Points
	require.Equal(t, conformance.Torn, points[len(points)-1].Side)
	require.Equal(t, conformance.Before, points[0].Side)
	require.Equal(t, conformance.Pass, sum.Results[1].Verdict)
}

// TestOfManyFailuresOneIsNamedToBeginWith: one mistake fails many cases, and CKP-006, the
// first of them, is about something else.
func TestOfManyFailuresOneIsNamedToBeginWith(t *testing.T) {
	o := quick(t, badsinks.Full(), badsinks.NoReplaySkip)
	o.Run = []string{"CKP-006", "IDM-002", "IDM-003", "IDM-008"}
	sum, err := conformance.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, "IDM-002 (usually: upserts without a look at the position); 3 of the 4 failures break its rule S-106", sum.Begin)

	o.Run = []string{"CKP-006"}
	sum, err = conformance.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, conformance.ExitFailures, sum.Exit)
	require.Empty(t, sum.Begin)
}

// TestCallsShowThePositionThatTheyAnswered: of a repeat, it tells what the sink has stored.
func TestCallsShowThePositionThatTheyAnswered(t *testing.T) {
	o := quick(t, badsinks.Full(), "")
	o.Run = []string{"CKP-002", "IDM-013"}
	sum, err := conformance.Run(t.Context(), o)
	require.NoError(t, err)
	told := map[string]bool{}
	for _, r := range sum.Results {
		for _, s := range r.Steps {
			told[s.What] = told[s.What] || s.Position != ""
		}
	}
	for _, call := range []string{"Checkpoint", "HandleTransaction", "HandleBatch", "HandleLargeTransaction"} {
		require.True(t, told[call], call)
	}
}

func TestRowsAreShownAsHashes(t *testing.T) {
	for _, show := range []bool{false, true} {
		o := quick(t, badsinks.Full(), badsinks.EmptyIsNull)
		o.Run, o.ShowValues = []string{"VAL-001"}, show
		sum, err := conformance.Run(t.Context(), o)
		require.NoError(t, err)
		d := sum.Results[0].Failure.Tables[0]
		require.Equal(t, 1, d.Changed)
		require.Len(t, d.Rows, 1)
		require.Contains(t, d.Rows[0].Found, "NULL")
		if show {
			require.Contains(t, d.Rows[0].Expected, `""`)
		} else {
			require.Contains(t, d.Rows[0].Expected, "sha256:e3b0c442, 0 bytes")
		}
	}
}

func TestKnownFailures(t *testing.T) {
	o := quick(t, badsinks.Full(), badsinks.EmptyIsNull)
	o.Run = []string{"VAL-001", "VAL-002", "VAL-003"}
	o.Known = []conformance.KnownFailure{
		{ID: "VAL-001", Reason: "being mended"}, {ID: "VAL-002", Reason: "mended long ago"},
		{ID: "VAL-003", Reason: "promised", Expires: time.Now().Add(-time.Hour)},
	}
	sum, err := conformance.Run(t.Context(), o)
	require.NoError(t, err)
	require.True(t, sum.Results[0].Known)
	require.Equal(t, conformance.Fail, sum.Results[1].Verdict, "an announced failure that passes fails")
	require.Equal(t, conformance.Fail, sum.Results[2].Verdict, "so does one whose time is over")
	require.Equal(t, conformance.ExitFailures, sum.Exit)

	o.Run, o.Known = []string{"VAL-001"}, o.Known[:1]
	sum, err = conformance.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, conformance.ExitPass, sum.Exit)
	require.False(t, sum.Conformant)
}

func TestSkipsAreOfThreeKinds(t *testing.T) {
	o := quick(t, badsinks.Minimal(), "")
	o.Run = []string{"VAL-001", "LIB-001", "ATM-005", "ATM-009"}
	o.Skip = []conformance.UserSkip{{Pattern: "VAL-*", Reason: "not today"}}
	sum, err := conformance.Run(t.Context(), o)
	require.NoError(t, err)
	kinds := map[string]conformance.SkipKind{}
	for _, r := range sum.Results {
		kinds[r.ID] = r.Skip
		require.NotEmpty(t, r.Why)
	}
	require.Equal(t, map[string]conformance.SkipKind{
		"VAL-001": conformance.ByUser, "LIB-001": conformance.NotApplicable,
		"ATM-005": conformance.NotPossible, "ATM-009": conformance.NotApplicable,
	}, kinds)
	require.False(t, sum.Conformant)

	o.Skip[0].Reason = ""
	_, err = conformance.Run(t.Context(), o)
	require.ErrorContains(t, err, "needs a reason")
	o.Skip, o.Run = nil, []string{"ZZZ-001"}
	_, err = conformance.Run(t.Context(), o)
	require.ErrorContains(t, err, "no case")
	require.ErrorAs(t, err, new(*conformance.UseError))
}

// blind is a probe that shows nothing.
type blind struct{ conformance.Probe }

func (blind) ReadTable(context.Context, string, string) (conformance.Table, error) {
	return conformance.Table{Missing: true}, nil
}

func TestAProbeThatLiesIsNotASinkThatFails(t *testing.T) {
	o := quick(t, badsinks.Full(), "")
	o.Probe = blind{o.Probe}
	_, err := conformance.Run(t.Context(), o)
	require.ErrorContains(t, err, "the probe cannot be trusted")
	require.ErrorContains(t, conformance.CheckProbe(t.Context(), o), "2 rows expected, 0 found")
}

func TestWhatASinkMustAdvertise(t *testing.T) {
	o := quick(t, badsinks.Minimal(), "")
	o.Expect = []string{"batch"}
	_, err := conformance.Run(t.Context(), o)
	require.ErrorContains(t, err, "should advertise batch")
}

func TestASinkThatIsNotThere(t *testing.T) {
	_, err := conformance.Run(t.Context(), conformance.Options{
		Target: conformance.NewAttached("unix:" + t.TempDir() + "/none"), Patience: 200 * time.Millisecond,
	})
	require.ErrorContains(t, err, "no answer within")
}

// hangs says what it can do, and answers nothing else.
type hangs struct {
	sinkv1.UnimplementedSinkServiceServer
}

func (hangs) GetCapabilities(context.Context, *sinkv1.GetCapabilitiesRequest) (*sinkv1.GetCapabilitiesResponse, error) {
	return &sinkv1.GetCapabilitiesResponse{
		SinkName: "hangs", InstanceId: make([]byte, sinkv1.IDBytes), SinkKind: sinkv1.SinkKind_SINK_KIND_STATE_MIRROR,
		Capabilities: []sinkv1.Capability{sinkv1.Capability_CAPABILITY_CHECKPOINT, sinkv1.Capability_CAPABILITY_TRANSACTION},
	}, nil
}

func (hangs) Checkpoint(ctx context.Context, _ *sinkv1.CheckpointRequest) (*sinkv1.CheckpointResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestASinkThatHangsInItsCallsIsGivenUp(t *testing.T) {
	server := conformance.NewServer("unix:"+t.TempDir()+"/s", func(ctx context.Context, address string) error {
		l, err := net.Listen("unix", strings.TrimPrefix(address, "unix:"))
		if err != nil {
			return err
		}
		g := grpc.NewServer()
		sinkv1.RegisterSinkServiceServer(g, hangs{})
		defer context.AfterFunc(ctx, g.Stop)()
		return g.Serve(l)
	})
	sum, err := conformance.Run(t.Context(), conformance.Options{Target: server, Patience: 100 * time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, server.Stop(t.Context()))
	waited, untried := 0, 0
	for _, r := range sum.Results {
		switch {
		case r.Failure == nil:
		case strings.Contains(r.Failure.What, "not tried: 3 cases in a row waited 100ms in vain"):
			untried++
		case r.Duration >= 100*time.Millisecond:
			waited++
		}
	}
	require.GreaterOrEqual(t, waited, 3)
	require.Less(t, waited, 10)
	require.GreaterOrEqual(t, untried, 3)
	require.Equal(t, conformance.ExitFailures, sum.Exit)
}

// gone crashes at every point and reaches none.
type gone struct{}

func (gone) Engine() string { return "gone" }

func (gone) Visit(context.Context, conformance.CrashPlan) (conformance.CrashMap, error) {
	return conformance.CrashMap{}, context.DeadlineExceeded
}

func TestNoCrashPointIsNoPass(t *testing.T) {
	o := quick(t, badsinks.Full(), "")
	o.Run = []string{"ATM-001"}
	own := o.Crashers
	o.Crashers = []conformance.Crasher{gone{}}
	sum, err := conformance.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, conformance.Broken, verdicts(sum)["ATM-001"])
	require.Equal(t, conformance.ExitHarness, sum.Exit)

	o.Crashers = append(o.Crashers, own...)
	sum, err = conformance.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, conformance.Pass, verdicts(sum)["ATM-001"])
	require.Contains(t, sum.Results[0].Notes[0], "fell back to store")
}

func TestEveryCaseExplainsItself(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range conformance.Cases() {
		require.False(t, seen[c.ID], c.ID)
		seen[c.ID] = true
		require.Regexp(t, `^[A-Z]{3}-[0-9]{3}$`, c.ID)
		require.NotEmpty(t, c.Title, c.ID)
		require.Contains(t, conformance.Profiles(), c.Profile, c.ID)
		if c.LeftOut != "" {
			require.Nil(t, c.Run, c.ID)
			continue
		}
		require.NotNil(t, c.Run, c.ID)
		require.NotEmpty(t, c.Reason, c.ID)
		require.NotEmpty(t, c.Expect, c.ID)
		require.NotEmpty(t, c.Cause, c.ID)
		require.True(t, c.Rules != nil || c.Profile == conformance.TLS, c.ID)
	}
	require.Greater(t, len(seen), 130)
}

func TestInProcess(t *testing.T) {
	o := quick(t, badsinks.Minimal(), "")
	sink := o.Target
	server := conformance.NewServer(sink.Address(), func(ctx context.Context, _ string) error {
		if err := sink.Start(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		return sink.Kill(context.Background())
	})
	o.Crashers, o.Profiles = nil, []conformance.Profile{conformance.Fenced}
	sum := conformance.Test(t, server, o)
	require.NoError(t, server.Stop(t.Context()))
	require.Equal(t, "in-process", sum.Mode)
	require.Equal(t, conformance.ExitPass, sum.Exit)
}
