package wire_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/wire"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// benchUnit is a unit of rows as a small shop has them: 7 columns, about 150 bytes.
func benchUnit(transactions, rows int) *core.Unit {
	relation := &core.Relation{OID: 16384, Schema: "public", Name: "orders", Identity: core.IdentityDefault}
	for i := range 7 {
		relation.Columns = append(relation.Columns, core.Column{
			Name: fmt.Sprintf("column_%d", i), TypeOID: 25, TypeModifier: -1, Identity: i == 0, TypeName: "text",
		})
	}
	unit := &core.Unit{Call: call(), Expected: 1, Checkpoint: core.LSN(transactions + 2)}
	for i := range transactions {
		t := core.Transaction{XID: uint32(i), CommitLSN: core.LSN(i + 1), EndLSN: core.LSN(i + 2), CommitTime: time.Unix(1e9, 0)}
		for j := range rows {
			t.Changes = append(t.Changes, core.Change{Op: core.OpInsert, Relation: relation, New: core.PackTuple(
				core.Text(fmt.Sprint(1000000+j)), core.Text("2026-11-29 12:34:56.123456+00"), core.Text("customer 4711"),
				core.Text("19.99"), core.Null(), core.Text("t"), core.Text("a note of some length about this order, as people write them"),
			)})
		}
		unit.Transactions = append(unit.Transactions, t)
	}
	return unit
}

// perRow reports wall and CPU time a row. CPU is what to look at on a shared machine.
func perRow(b *testing.B, rows int, before time.Duration) {
	each := float64(b.N) * float64(rows)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/each, "ns/row")
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/each, "cpu-ns/row")
}

func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func BenchmarkEncode(b *testing.B) {
	unit := benchUnit(1, 1000)
	var encoder wire.Encoder
	before := cpuTime(b)
	for b.Loop() {
		raw, err := encoder.Batch(unit)
		require.NoError(b, err)
		raw.Free()
	}
	perRow(b, 1000, before)
}

func BenchmarkEncodeManySmallTransactions(b *testing.B) {
	unit := benchUnit(1000, 1)
	var encoder wire.Encoder
	before := cpuTime(b)
	for b.Loop() {
		raw, err := encoder.Batch(unit)
		require.NoError(b, err)
		raw.Free()
	}
	perRow(b, 1000, before)
}

var walked int

func walk(unit *core.Unit) {
	for i := range unit.Transactions {
		changes := unit.Transactions[i].Changes
		for j := range changes {
			for _, v := range changes[j].New.Values() {
				walked += len(v.Text)
			}
		}
	}
}

func BenchmarkDecodeAndWalk(b *testing.B) {
	for name, unit := range map[string]*core.Unit{"one": benchUnit(1, 1000), "many": benchUnit(1000, 1)} {
		b.Run(name, func(b *testing.B) {
			var encoder wire.Encoder
			request, err := encoder.AppendBatchRequest(nil, unit)
			require.NoError(b, err)
			decoder := wire.NewDecoder(&wire.RelationCache{})
			b.SetBytes(int64(len(request)))
			before := cpuTime(b)
			for b.Loop() {
				got, err := decoder.Batch(request)
				require.NoError(b, err)
				walk(got)
			}
			perRow(b, 1000, before)
		})
	}
}

// noop acknowledges; with walks set it looks at every value first.
type noop struct{ walks bool }

func (noop) Capabilities(context.Context) (core.Capabilities, error) {
	return core.Capabilities{Name: "noop"}, nil
}

func (n noop) HandleBatch(_ context.Context, u *core.Unit) (core.Ack, error) {
	if n.walks {
		walk(u)
	}
	return core.Ack{Checkpoint: u.Checkpoint}, nil
}

// BenchmarkRoad is a whole call over a unix socket, both ends on this machine's cores.
func BenchmarkRoad(b *testing.B) {
	for _, bench := range []struct {
		name  string
		walks bool
		unit  *core.Unit
	}{
		{"idle", false, benchUnit(0, 0)}, {"receive", false, benchUnit(1, 1000)}, {"walk", true, benchUnit(1, 1000)},
		{"walk_small", true, benchUnit(1000, 1)}, {"walk_1MiB", true, benchUnit(1, 7000)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			remote := serveSink(b, noop{walks: bench.walks})
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				_, err := remote.HandleBatch(context.Background(), bench.unit)
				require.NoError(b, err)
			}
			if rows := len(bench.unit.Transactions) * max(1, len(bench.unit.Transactions)); rows > 0 {
				total := 0
				for _, t := range bench.unit.Transactions {
					total += len(t.Changes)
				}
				perRow(b, total, before)
			}
		})
	}
}

// BenchmarkGenerated is what the same work costs through the generated code: making the
// messages and marshalling them, unmarshalling and walking them.
func BenchmarkGenerated(b *testing.B) {
	unit := benchUnit(1, 1000)
	b.Run("encode", func(b *testing.B) {
		before := cpuTime(b)
		for b.Loop() {
			_, err := proto.Marshal(referenceRequest(unit))
			require.NoError(b, err)
		}
		perRow(b, 1000, before)
	})
	b.Run("decode", func(b *testing.B) {
		request, err := proto.Marshal(referenceRequest(unit))
		require.NoError(b, err)
		before := cpuTime(b)
		for b.Loop() {
			var message sinkv1.HandleBatchRequest
			require.NoError(b, proto.Unmarshal(request, &message))
			for _, t := range message.GetTransactions() {
				for _, change := range t.GetChanges() {
					for _, value := range change.GetNewRow().GetValues() {
						walked += len(value)
					}
				}
			}
		}
		perRow(b, 1000, before)
	})
}
