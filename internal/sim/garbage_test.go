package sim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

// A forgery is one field of a sink's answer with something in it that no sink means. No
// response names a stream, so an answer for another one cannot be told but by its position.
type forgery struct {
	// field is "Response.field"; name says what is in it.
	field, name string
	forge       any // func(*sinkv1.XResponse)
	// want are the halts of which one must come; none: it makes no difference.
	want []core.HaltCode
	// lib has the sidecar keep the checkpoint.
	lib bool
}

// planted stands in the bytes of forged fields. No halt may show it.
const planted = "g4rbage"

func halts(codes ...core.HaltCode) []core.HaltCode { return codes }

type (
	about  = sinkv1.GetCapabilitiesResponse
	state  = sinkv1.CheckpointResponse
	single = sinkv1.HandleTransactionResponse
	batch  = sinkv1.HandleBatchResponse
	pieces = sinkv1.HandleLargeTransactionResponse
	told   = sinkv1.HandleMessageResponse
)

var contract = halts(core.HaltSinkContract)

// aboutForgeries are those of GetCapabilities.
func aboutForgeries() []forgery {
	of := func(field, name string, want []core.HaltCode, forge func(*about)) forgery {
		return forgery{field: "GetCapabilitiesResponse." + field, name: name, forge: forge, want: want}
	}
	limits := func(change func(*sinkv1.Limits)) func(*about) {
		return func(m *about) {
			if m.Limits == nil {
				m.Limits = &sinkv1.Limits{}
			}
			change(m.Limits)
		}
	}
	lost, long := halts(core.HaltCapabilityLost), strings.Repeat(planted, 100)
	lib := func(f forgery) forgery { f.lib = true; return f }
	return []forgery{
		of("protocol_minor", "a later one", nil, func(m *about) { m.ProtocolMinor = math.MaxUint32 }),
		of("sink_name", "absent", contract, func(m *about) { m.SinkName = "" }),
		of("sink_name", "huge", contract, func(m *about) { m.SinkName = long }),
		of("sink_name", "control characters", contract, func(m *about) { m.SinkName = planted + "\x1b[2J" }),
		of("sink_name", "another", lost, func(m *about) { m.SinkName = "another" }),
		of("sink_version", "huge", contract, func(m *about) { m.SinkVersion = long }),
		of("sink_version", "another", nil, func(m *about) { m.SinkVersion = "99" }),
		of("instance_id", "huge", contract, func(m *about) { m.InstanceId = []byte(long) }),
		of("instance_id", "absent", nil, func(m *about) { m.InstanceId = nil }),
		lib(of("instance_id", "of nobody", contract, func(m *about) { m.InstanceId = []byte(planted) })),
		of("sink_kind", "unknown", nil, func(m *about) { m.SinkKind = 99 }),
		of("sink_kind", "another", lost, func(m *about) { m.SinkKind = sinkv1.SinkKind_SINK_KIND_APPEND_LOG }),
		of("capabilities", "absent", halts(core.HaltMessagesUnsupported), func(m *about) { m.Capabilities = nil }),
		of("capabilities", "unknown ones beside ours", nil, func(m *about) { m.Capabilities = append(m.Capabilities, 99, -1, math.MaxInt32) }),
		of("capabilities", "without BATCH", halts(core.HaltBatchUnsupported), func(m *about) {
			m.Capabilities = slices.DeleteFunc(m.Capabilities, func(c sinkv1.Capability) bool { return c == sinkv1.Capability_CAPABILITY_BATCH })
		}),
		of("fencing", "unknown", lost, func(m *about) { m.Fencing = []sinkv1.Fencing{99} }),
		lib(of("fencing", "absent", halts(core.HaltFencingRequired), func(m *about) { m.Fencing = nil })),
		of("limits", "absent", nil, func(m *about) { m.Limits = nil }),
		of("limits", "max_request_bytes 1", halts(core.HaltTransactionTooLarge, core.HaltValueTooLarge), limits(func(l *sinkv1.Limits) { l.MaxRequestBytes = 1 })),
		of("limits", "all huge", nil, limits(func(l *sinkv1.Limits) {
			l.MaxRequestBytes, l.PreferredRequestBytes, l.MaxTransactionsPerBatch = math.MaxUint64, math.MaxUint64, math.MaxUint32
			l.MaxCallDuration = &durationpb.Duration{Seconds: 315_576_000_000}
		})),
		of("limits", "preferred_request_bytes 1", nil, limits(func(l *sinkv1.Limits) { l.PreferredRequestBytes = 1 })),
		of("limits", "max_transactions_per_batch 1", nil, limits(func(l *sinkv1.Limits) { l.MaxTransactionsPerBatch = 1 })),
		of("limits", "max_call_duration negative", contract, limits(func(l *sinkv1.Limits) { l.MaxCallDuration = durationpb.New(-time.Hour) })),
		of("limits", "max_call_duration no duration", contract, limits(func(l *sinkv1.Limits) { l.MaxCallDuration = &durationpb.Duration{Seconds: 1, Nanos: -1} })),
		of("limits", "max_call_duration 1 ns", nil, limits(func(l *sinkv1.Limits) { l.MaxCallDuration = durationpb.New(1) })),
	}
}

// stateForgeries are those of Checkpoint.
func stateForgeries() []forgery {
	of := func(field, name string, want []core.HaltCode, forge func(*state)) forgery {
		return forgery{field: "CheckpointResponse." + field, name: name, forge: forge, want: want}
	}
	unreadable := halts(core.HaltCheckpointUnreadable)
	return []forgery{
		of("position", "absent", contract, func(m *state) { m.Position = nil }),
		of("position", "0", unreadable, func(m *state) { m.Position = proto.Uint64(0) }),
		of("position", "below the slot", halts(core.HaltSlotAhead), func(m *state) { m.Position = proto.Uint64(8) }),
		of("position", "huge", halts(core.HaltSourceBehind), func(m *state) { m.Position = proto.Uint64(math.MaxUint64) }),
		of("epoch", "0", halts(core.HaltFenced), func(m *state) { m.Epoch = 0 }),
		of("epoch", "one too high", contract, func(m *state) { m.Epoch++ }),
		of("epoch", "huge", halts(core.HaltSinkContract, core.HaltFenced, core.HaltCheckpointUnreadable), func(m *state) { m.Epoch = math.MaxUint64 }),
		of("lineage", "absent", nil, func(m *state) { m.Lineage = nil }),
		of("lineage", "huge", unreadable, func(m *state) { m.Lineage = []byte(strings.Repeat(planted, 100)) }),
		of("lineage", "another", halts(core.HaltSinkReplaced), func(m *state) { m.Lineage = []byte(planted) }),
		of("resume_state", "absent", nil, func(m *state) { m.ResumeState = nil }),
		of("resume_state", "empty", nil, func(m *state) { m.ResumeState = []byte{} }),
		of("resume_state", "not ours", contract, func(m *state) { m.ResumeState = []byte(planted) }),
		of("resume_state", "huge", unreadable, func(m *state) { m.ResumeState = make([]byte, 1<<20+1) }),
	}
}

// answerForgeries are those of a writing call: every position but the one that was asked
// for is a breach, and counts are for people.
func answerForgeries[M any](response string, position func(*M) **uint64, counts func(*M) **sinkv1.Counts) (list []forgery) {
	for name, change := range map[string]func(at *uint64) *uint64{
		"absent":      func(*uint64) *uint64 { return nil },
		"0":           func(*uint64) *uint64 { return proto.Uint64(0) },
		"one more":    func(at *uint64) *uint64 { return proto.Uint64(*at + 1) },
		"one less":    func(at *uint64) *uint64 { return proto.Uint64(*at - 1) },
		"huge":        func(*uint64) *uint64 { return proto.Uint64(math.MaxUint64) },
		"another one": func(*uint64) *uint64 { return proto.Uint64(uint64(walBegin)) },
	} {
		list = append(list, forgery{field: response + ".checkpoint_lsn", name: name, want: contract, forge: func(m *M) {
			if at := position(m); *at != nil {
				*at = change(*at)
			}
		}})
	}
	for name, huge := range map[string]*sinkv1.Counts{"absent": nil, "huge": {
		Inserted: proto.Uint64(math.MaxUint64), Updated: proto.Uint64(math.MaxUint64), Deleted: proto.Uint64(math.MaxUint64),
		Truncated: proto.Uint64(math.MaxUint64), ReplayedTransactions: proto.Uint64(math.MaxUint64),
	}} {
		list = append(list, forgery{field: response + ".counts", name: name, forge: func(m *M) { *counts(m) = huge }})
	}
	return list
}

func forgeries() []forgery {
	list := slices.Concat(aboutForgeries(), stateForgeries(),
		answerForgeries("HandleBatchResponse", func(m *batch) **uint64 { return &m.CheckpointLsn }, func(m *batch) **sinkv1.Counts { return &m.Counts }),
		answerForgeries("HandleTransactionResponse", func(m *single) **uint64 { return &m.CheckpointLsn }, func(m *single) **sinkv1.Counts { return &m.Counts }),
		answerForgeries("HandleLargeTransactionResponse", func(m *pieces) **uint64 { return &m.CheckpointLsn }, func(m *pieces) **sinkv1.Counts { return &m.Counts }),
		answerForgeries("HandleMessageResponse", func(m *told) **uint64 { return &m.CheckpointLsn }, func(m *told) **sinkv1.Counts { return &m.Counts }),
	)
	for _, name := range []string{"GetCapabilities", "Checkpoint", "HandleBatch", "HandleTransaction", "HandleLargeTransaction", "HandleMessage", "HandleSchemaChange"} {
		list = append(list, forgery{field: name + "Response.", name: "a field of a later version", forge: func(m proto.Message) {
			m.ProtoReflect().SetUnknown(protoreflect.RawFields("\xfa\x07\x07" + planted))
		}})
	}
	return list
}

// TestEveryFieldOfAnAnswerIsForged: the contract and the table below name the same fields.
func TestEveryFieldOfAnAnswerIsForged(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range forgeries() {
		seen[f.field] = true
	}
	// The calls of an initial copy have their own tests; two-phase has its own file.
	left := []string{"HandleSnapshotResponse", "HandleSnapshotCompleteResponse", "SnapshotProgressResponse", "HandleSessionIdentityResponse", "HandleSlotOriginResponse"}
	messages := sinkv1.File_sink_v1_sink_proto.Messages()
	for i := range messages.Len() {
		m := messages.Get(i)
		if !strings.HasSuffix(string(m.Name()), "Response") || slices.Contains(left, string(m.Name())) {
			continue
		}
		for j := range m.Fields().Len() {
			name := fmt.Sprintf("%s.%s", m.Name(), m.Fields().Get(j).Name())
			require.True(t, seen[name], "%s: nobody forges it", name)
		}
	}
}

// TestForgedAnswers: garbage in any field of an answer halts with its own code, shows
// nothing of itself, moves nothing; or it makes no difference at all.
func TestForgedAnswers(t *testing.T) {
	for _, f := range forgeries() {
		t.Run(f.field+" "+f.name, func(t *testing.T) {
			t.Parallel()
			simulate(t, 1, f.plan(), f.run)
		})
	}
}

func (f *forgery) plan() plan {
	p := steady()["gRPC"]
	if f.lib {
		p = steady()["lib gRPC"]
	}
	p.sidecars, p.large, p.tellShapes = 1, true, true
	p.limits.RequestBytes = 16 << 10
	if strings.HasPrefix(f.field, "HandleTransaction") {
		p.delivery.Mode = pipeline.ModeTransaction
	}
	return p
}

func (f *forgery) run(w *world) {
	w.addSidecar("A", 0)
	w.writeOfEach()
	w.settle(5 * time.Minute)
	g := w.sidecars[0].now()
	if g == nil {
		w.unless("the sidecar is gone")
		return
	}
	w.mu.Lock()
	w.forge = f.apply
	w.hush = planted
	w.permit(f.want...)
	before := w.position()
	w.mu.Unlock()
	for _, l := range g.streams() { // a new session asks everything anew
		l.cut()
	}
	w.await(time.Minute, func() bool { return false })
	w.writeOfEach()
	if len(f.want) == 0 {
		w.settle(time.Hour)
		return
	}
	halted := func() bool {
		return slices.ContainsFunc(f.want, func(c core.HaltCode) bool { return w.sidecars[0].halts[c] > 0 })
	}
	if !w.await(10*time.Minute, halted) {
		w.unless("no halt %v, but %v", f.want, w.sidecars[0].halts)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.HasPrefix(f.field, "CheckpointResponse") && w.position() != before {
		w.fail("the position moved from %s to %s", before, w.position())
	}
}

// apply changes an answer if it is one of the kind.
func (f *forgery) apply(m any) {
	if message, ok := m.(proto.Message); !ok || !strings.HasPrefix(f.field, string(message.ProtoReflect().Descriptor().Name())+".") {
		return
	}
	switch forge := f.forge.(type) {
	case func(*about):
		forge(m.(*about))
	case func(*state):
		forge(m.(*state))
	case func(*batch):
		forge(m.(*batch))
	case func(*single):
		forge(m.(*single))
	case func(*pieces):
		forge(m.(*pieces))
	case func(*told):
		forge(m.(*told))
	case func(proto.Message):
		forge(m.(proto.Message))
	default:
		panic(fmt.Sprintf("%T", forge))
	}
}

// writeOfEach writes a small and a large transaction, a message and a new shape.
func (w *world) writeOfEach() {
	w.flood(1, 100)
	w.mu.Lock()
	w.wal.add(record{kind: message, prefix: "app", content: "m"}, 40)
	w.wal.tables[1].shape++
	w.mu.Unlock()
	l := &workload{w: w, rng: w.rand(7), nextID: int(w.wal.end)}
	w.mu.Lock()
	w.wal.add(record{kind: commit, rows: []row{l.row(1)}}, 48)
	many := record{kind: commit}
	for range 300 { // more than one request may hold
		many.rows = append(many.rows, row{op: core.OpInsert, id: "1", text: strings.Repeat("x", 100)})
	}
	w.wal.add(many, 48)
	w.mu.Unlock()
}

// forging is what lets a served sink's answers be forged.
func (w *world) forging() []grpc.ServerOption {
	apply := func(m any) {
		w.mu.Lock()
		forge := w.forge
		w.mu.Unlock()
		if forge != nil {
			forge(m)
		}
	}
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			response, err := handle(ctx, request)
			if err == nil {
				apply(response)
			}
			return response, err
		}),
		grpc.ChainStreamInterceptor(func(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return handle(server, forgedStream{stream, apply})
		}),
	}
}

type forgedStream struct {
	grpc.ServerStream
	apply func(any)
}

func (s forgedStream) SendMsg(m any) error {
	s.apply(m)
	return s.ServerStream.SendMsg(m)
}
