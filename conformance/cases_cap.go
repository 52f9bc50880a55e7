package conformance

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

var capCases = []Case{
	{
		ID: "CAP-001", Level: Must, Profile: Core, Rules: []string{"S-201"},
		Title:  "GetCapabilities first on a fresh connection, three times",
		Reason: "the sidecar asks again on every reconnect and must learn the same",
		Expect: "the same answer each time, within 5 s, without a stream", Cause: "an answer that depends on state",
		Run: capStable,
	},
	{
		ID: "CAP-002", Level: Must, Profile: Core, Rules: []string{"S-202", "S-203", "S-205", "W-105"},
		Title:  "the answer's combinations",
		Reason: "a start is decided by what is advertised; an impossible set is found there or in production",
		Expect: "a 16-byte instance id, a way to write, and no capability without the one that it needs",
		Cause:  "a constant copied from another sink",
		Run:    capLint,
	},
	{
		ID: "CAP-003", Level: Must, Profile: Core, Rules: []string{"P-202", "W-105", "W-106"},
		Title:  "minors 0 and 99, unknown fields, unknown metadata",
		Reason: "v1 grows by what the other side ignores; a sink that refuses it breaks at an upgrade",
		Expect: "OK", Cause: "a strict parser, or a version check",
		Run: capGrowth,
	},
	{
		ID: "CAP-004", Level: Must, Profile: Core, Rules: []string{"S-203"},
		Title:  "each advertised call with a small request",
		Reason: "advertised and UNIMPLEMENTED halts the sidecar where it happens",
		Expect: "any answer but UNIMPLEMENTED", Cause: "a capability list that is longer than the code",
		Run: capImplemented,
	},
	{
		ID: "CAP-005", Level: Must, Profile: Core, Rules: []string{"S-203"},
		Title:  "each call that is not advertised",
		Reason: "an empty handler that says OK loses what it is given",
		Expect: "UNIMPLEMENTED", Cause: "stubs that return an empty answer",
		Run: capSilent,
	},
	{
		ID: "CAP-006", Level: Must, Profile: Core, Needs: NeedLifecycle, Rules: []string{"S-202", "S-204"},
		Title:  "the answer before and after a restart",
		Reason: "the sidecar halts when name, kind or a capability in use is gone after a reconnect",
		Expect: "equal, but for instance_id, which is another", Cause: "a name with a host or process id in it",
		Run: capRestart,
	},
	{
		ID: "CAP-007", Level: Should, Profile: Core, Needs: NeedLifecycle, Rules: []string{"S-201"},
		Title:  "GetCapabilities from the start of the process",
		Reason: "a sink that the sidecar starts is ready when this answers",
		Expect: "UNAVAILABLE or no connection until ready, then OK", Cause: "a server that listens before its store is open",
		Run: capReady,
	},
	{
		ID: "CAP-008", Level: Must, Profile: Core, Rules: []string{"S-1201", "S-1301", "S-203"},
		Title:  "the two vetoes, for a stream that nobody knows",
		Reason: "they are asked before anything is stored, and only OK is consent",
		Expect: "OK or the veto's own reason; no stream is made", Cause: "a handler shared with a writing call",
		Run: capVetoes,
	},
}

func capStable(t *Trial) {
	first := t.open()
	var before *sinkv1.GetCapabilitiesResponse
	for range 3 {
		start := time.Now()
		ctx, cancel := t.deadline(t.ctx)
		caps, err := first.sink.GetCapabilities(ctx, &sinkv1.GetCapabilitiesRequest{})
		cancel()
		if err != nil {
			t.failed("GetCapabilities is refused: %v", err)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.failed("GetCapabilities took %s", took.Round(time.Second))
		}
		if before != nil && !proto.Equal(before, caps) {
			t.failed("GetCapabilities answers something else the second time")
		}
		before = caps
	}
}

// impossible are pairs of which the first needs the second.
var impossible = [][2]sinkv1.Capability{
	{sinkv1.Capability_CAPABILITY_SNAPSHOT_COMPLETE, sinkv1.Capability_CAPABILITY_SNAPSHOT},
	{sinkv1.Capability_CAPABILITY_SNAPSHOT_PROGRESS, sinkv1.Capability_CAPABILITY_SNAPSHOT},
	{sinkv1.Capability_CAPABILITY_RESUME_STATE, sinkv1.Capability_CAPABILITY_CHECKPOINT},
	{sinkv1.Capability_CAPABILITY_BATCH, sinkv1.Capability_CAPABILITY_CHECKPOINT},
}

func capLint(t *Trial) {
	caps := t.session.caps
	if n := len(caps.GetInstanceId()); n != sinkv1.IDBytes {
		t.differs("instance_id has another length", "16 bytes", fmt.Sprintf("%d bytes", n))
	}
	if caps.GetSinkName() == "" {
		t.failed("sink_name is empty")
	}
	for _, pair := range impossible {
		if t.has(pair[0]) && !t.has(pair[1]) {
			t.failed("%s is advertised without %s", capabilityName(pair[0]), capabilityName(pair[1]))
		}
	}
	if t.session.stored() && !t.has(sinkv1.Capability_CAPABILITY_CHECKPOINT) {
		t.failed("STORED fencing is advertised without CHECKPOINT")
	}
	if t.has(0) {
		t.failed("CAPABILITY_UNSPECIFIED is advertised")
	}
	writes := t.has(sinkv1.Capability_CAPABILITY_TRANSACTION) || t.has(sinkv1.Capability_CAPABILITY_BATCH) ||
		t.has(sinkv1.Capability_CAPABILITY_TWO_PHASE)
	if !writes {
		t.failed("there is no way to write: neither TRANSACTION, BATCH nor TWO_PHASE is advertised")
	}
	if l := caps.GetLimits(); l.GetMaxRequestBytes() != 0 && l.GetPreferredRequestBytes() > l.GetMaxRequestBytes() {
		t.failed("preferred_request_bytes is above max_request_bytes")
	}
}

func capGrowth(t *Trial) {
	for _, minor := range []uint32{0, 99} {
		q := &sinkv1.GetCapabilitiesRequest{ProtocolMinor: minor, SidecarVersion: "conformance"}
		unknown := protowire.AppendTag(nil, 1999, protowire.BytesType)
		q.ProtoReflect().SetUnknown(protowire.AppendString(unknown, "from a later version"))
		ctx, cancel := t.deadline(metadata.AppendToOutgoingContext(t.ctx,
			"x-later-version", "1", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
		_, err := t.link.sink.GetCapabilities(ctx, q)
		cancel()
		if err != nil {
			t.failed("protocol_minor %d with an unknown field and unknown metadata is refused: %v", minor, err)
		}
	}
}

// smallCalls are a small request of each capability's call, on a stream that nobody knows.
func (t *Trial) smallCalls() map[sinkv1.Capability]func(context.Context) error {
	s := t.unclaimed("_none")
	t.streams = t.streams[:len(t.streams)-1]
	c := &sinkv1.StreamContext{
		StreamId: s.id, CheckpointOwner: s.owner, Epoch: 1, SenderId: s.sender, Sequence: 1, InstanceId: s.instance,
	}
	lsn := s.wal
	l := t.link
	return map[sinkv1.Capability]func(context.Context) error{
		sinkv1.Capability_CAPABILITY_CHECKPOINT: func(ctx context.Context) error {
			_, err := l.sink.Checkpoint(ctx, &sinkv1.CheckpointRequest{StreamId: s.id, Source: s.source})
			return err
		},
		sinkv1.Capability_CAPABILITY_TRANSACTION: func(ctx context.Context) error {
			_, err := l.sink.HandleTransaction(ctx, &sinkv1.HandleTransactionRequest{Context: c, CheckpointLsn: &lsn})
			return err
		},
		sinkv1.Capability_CAPABILITY_BATCH: func(ctx context.Context) error {
			_, err := l.sink.HandleBatch(ctx, &sinkv1.HandleBatchRequest{Context: c, CheckpointLsn: &lsn})
			return err
		},
		sinkv1.Capability_CAPABILITY_LARGE_TRANSACTION: func(ctx context.Context) error {
			return t.frames(ctx, largeBegin(c, nil, s.tx()))
		},
		sinkv1.Capability_CAPABILITY_MESSAGE: func(ctx context.Context) error {
			_, err := l.sink.HandleMessage(ctx, &sinkv1.HandleMessageRequest{
				Context: c, CheckpointLsn: &lsn, Message: &sinkv1.LogicalMessage{Lsn: lsn},
			})
			return err
		},
		sinkv1.Capability_CAPABILITY_SCHEMA_CHANGE: func(ctx context.Context) error {
			_, err := l.sink.HandleSchemaChange(ctx, &sinkv1.HandleSchemaChangeRequest{Context: c})
			return err
		},
		sinkv1.Capability_CAPABILITY_SNAPSHOT: func(ctx context.Context) error {
			_, err := l.sink.HandleSnapshot(ctx, &sinkv1.HandleSnapshotRequest{Context: c, Unit: &sinkv1.SnapshotUnit{}})
			return err
		},
		sinkv1.Capability_CAPABILITY_SNAPSHOT_COMPLETE: func(ctx context.Context) error {
			_, err := l.sink.HandleSnapshotComplete(ctx, &sinkv1.HandleSnapshotCompleteRequest{
				Context: c, CheckpointLsn: &lsn, Completion: &sinkv1.SnapshotCompletion{},
			})
			return err
		},
		sinkv1.Capability_CAPABILITY_SNAPSHOT_PROGRESS: func(ctx context.Context) error {
			_, err := l.sink.SnapshotProgress(ctx, &sinkv1.SnapshotProgressRequest{StreamId: s.id, Source: s.source})
			return err
		},
		sinkv1.Capability_CAPABILITY_SESSION_IDENTITY: func(ctx context.Context) error {
			_, err := l.sink.HandleSessionIdentity(ctx, &sinkv1.HandleSessionIdentityRequest{StreamId: s.id, Source: s.source})
			return err
		},
		sinkv1.Capability_CAPABILITY_SLOT_ORIGIN: func(ctx context.Context) error {
			_, err := l.sink.HandleSlotOrigin(ctx, &sinkv1.HandleSlotOriginRequest{
				StreamId: s.id, Source: s.source, OriginLsn: lsn,
			})
			return err
		},
		sinkv1.Capability_CAPABILITY_TWO_PHASE: func(ctx context.Context) error {
			_, err := l.two.ListPrepared(ctx, &sinkv1.ListPreparedRequest{Context: c})
			return err
		},
	}
}

func capImplemented(t *Trial) {
	calls := t.smallCalls()
	for _, c := range capabilityOrder() {
		if call := calls[c]; call != nil && t.has(c) {
			ctx, cancel := t.deadline(t.ctx)
			err := call(ctx)
			cancel()
			if refusal(err).Code == codes.Unimplemented {
				t.failed("%s is advertised, and its call answers UNIMPLEMENTED", capabilityName(c))
			}
		}
	}
}

func capSilent(t *Trial) {
	calls, tried := t.smallCalls(), 0
	for _, c := range capabilityOrder() {
		if call := calls[c]; call != nil && !t.has(c) {
			tried++
			ctx, cancel := t.deadline(t.ctx)
			err := call(ctx)
			cancel()
			t.mustRefuse("the call of "+capabilityName(c)+", which is not advertised,", err, codes.Unimplemented, "")
		}
	}
	if tried == 0 {
		t.inapplicable("everything is advertised")
	}
}

func capRestart(t *Trial) {
	before := proto.CloneOf(t.up())
	t.bounce()
	after := proto.CloneOf(t.up())
	if bytes.Equal(before.GetInstanceId(), after.GetInstanceId()) && t.session.fences(sinkv1.Fencing_FENCING_INSTANCE) {
		t.note("instance_id is the same after a restart: LIB-003 judges it")
	}
	before.InstanceId, after.InstanceId = nil, nil
	if !proto.Equal(before, after) {
		t.failed("GetCapabilities answers something else after a restart")
	}
}

func capReady(t *Trial) {
	t.kill()
	t.need(t.session.o.Target.Start(t.ctx))
	t.link.close()
	t.link = t.open()
	end := time.Now().Add(t.session.patience())
	for {
		ctx, cancel := context.WithTimeout(t.ctx, 5*time.Second)
		_, err := t.link.sink.GetCapabilities(ctx, &sinkv1.GetCapabilitiesRequest{})
		cancel()
		if err == nil {
			break
		}
		if a := refusal(err); a.Code != codes.Unavailable {
			t.differs("a call before the sink is ready is answered in another way", "UNAVAILABLE", a.Error())
		}
		if time.Now().After(end) {
			t.failed("the sink is not ready within %s", t.session.patience())
		}
		time.Sleep(20 * time.Millisecond)
	}
	if t.has(sinkv1.Capability_CAPABILITY_CHECKPOINT) { // ready means that all of it is
		s := t.unclaimed("")
		s.read()
	}
}

func capVetoes(t *Trial) {
	calls, tried := t.smallCalls(), 0
	for _, c := range []sinkv1.Capability{sinkv1.Capability_CAPABILITY_SESSION_IDENTITY, sinkv1.Capability_CAPABILITY_SLOT_ORIGIN} {
		if !t.has(c) {
			continue
		}
		tried++
		ctx, cancel := t.deadline(t.ctx)
		err := calls[c](ctx)
		cancel()
		if a := refusal(err); a.Code != codes.OK && !strings.HasSuffix(a.Reason, "_REJECTED") {
			t.differs("a veto answers in another way", "OK, or IDENTITY_REJECTED or ORIGIN_REJECTED", a.Error())
		}
	}
	if tried == 0 {
		t.inapplicable("neither SESSION_IDENTITY nor SLOT_ORIGIN is advertised")
	}
	if !t.has(sinkv1.Capability_CAPABILITY_CHECKPOINT) {
		return
	}
	s := t.unclaimed("_none")
	t.streams = nil
	if r := s.read(); r.GetPosition() != 0 || r.GetEpoch() != 0 || len(r.GetLineage()) > 0 {
		t.failed("a veto made a stream")
	}
}
