package conformance_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
	"github.com/replicant-sidecar/replicant-sidecar/conformance/badsinks"
)

// lagging is a database that is still at a dead sink's commit when it is first looked at: the
// first read after each kill shows nothing of the table.
type lagging struct {
	*badsinks.Process
	behind *int // reads that still show nothing
	reads  int  // how many of them each kill brings
}

func (l lagging) ReadTable(ctx context.Context, schema, table string) (conformance.Table, error) {
	if *l.behind > 0 {
		*l.behind--
		return conformance.Table{Missing: true}, nil
	}
	return l.Process.ReadTable(ctx, schema, table)
}

func (l lagging) Visit(ctx context.Context, plan conformance.CrashPlan) (conformance.CrashMap, error) {
	judge := plan.Judge
	plan.Judge = func(ctx context.Context, n int) (conformance.CrashSide, string, error) {
		*l.behind = l.reads
		return judge(ctx, n)
	}
	return l.Process.Visit(ctx, plan)
}

// TestACommitThatIsOnItsWayIsNotTorn: a claim returns after a write in progress, so what is
// seen behind it counts. What is torn behind it is torn.
func TestACommitThatIsOnItsWayIsNotTorn(t *testing.T) {
	for reads, want := range map[int]conformance.Verdict{
		2: conformance.Pass, // rows are compared with before and with after: one look
		4: conformance.Fail,
	} {
		o := quick(t, badsinks.Minimal(), "")
		sink := lagging{o.Target.(*badsinks.Process), new(int), reads}
		o.Probe, o.Crashers, o.Run = sink, []conformance.Crasher{sink}, []string{"ATM-001"}
		sum, err := conformance.Run(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, want, verdicts(sum)["ATM-001"], "%d reads", reads)
	}
}
