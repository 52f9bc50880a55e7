"""A sink in Python: mirrors Postgres tables into SQLite, each transaction exactly once.

Rows and checkpoint are stored in one SQLite transaction, so after any crash they agree.
This file has the calls; checkpoint.py says who may write and how far we are; mirror.py is
what this sink makes of the rows. docs/writing-a-sink.md explains all three. snapshot.py is
for rows that were there before the stream began.

    REPLICANT_SINK_LISTEN   unix:/path or host:port     default unix:replicant-sink.sock
    REPLICANT_SINK_DB       path of the SQLite file     default replicant-sink.db
"""

import os
import queue
import signal
import sys
from concurrent import futures
from pathlib import Path

import grpc

sys.path.insert(0, str(Path(__file__).with_name("gen")))  # the stubs, made by generate.sh
from checkpoint import Store
from errors import broken, guarded
from message import Messages
from mirror import Mirror
from sink.v1 import sink_pb2, sink_pb2_grpc, types_pb2
from snapshot import Snapshots


class SqliteSink(sink_pb2_grpc.SinkServiceServicer):
    def __init__(self, path):
        self.store = Store(path)
        self.mirror = Mirror(self.store)
        self.snapshots = Snapshots(self.store)
        self.messages = Messages(self.store)

    @guarded
    def GetCapabilities(self, request, context):
        return sink_pb2.GetCapabilitiesResponse(
            sink_name="python-sqlite-mirror",
            sink_version="1.0",
            instance_id=self.store.fence.instance_id,
            sink_kind=types_pb2.SINK_KIND_STATE_MIRROR,
            fencing=[types_pb2.FENCING_STORED, types_pb2.FENCING_INSTANCE],
            capabilities=[
                types_pb2.CAPABILITY_CHECKPOINT,
                types_pb2.CAPABILITY_TRANSACTION,
                types_pb2.CAPABILITY_BATCH,
                types_pb2.CAPABILITY_LARGE_TRANSACTION,
                types_pb2.CAPABILITY_MESSAGE,
                types_pb2.CAPABILITY_RESUME_STATE,
                types_pb2.CAPABILITY_SNAPSHOT,
                types_pb2.CAPABILITY_SNAPSHOT_COMPLETE,
                types_pb2.CAPABILITY_SNAPSHOT_PROGRESS,
            ],
            limits=types_pb2.Limits(
                max_request_bytes=32 << 20,
                preferred_request_bytes=1 << 20,
                max_transactions_per_batch=10_000,
            ),
        )

    @guarded
    def Checkpoint(self, request, context):
        take = self.store.claim if request.HasField("claim") else self.store.read
        return take(request)

    @guarded
    def HandleTransaction(self, request, context):
        one = [request.transaction] if request.HasField("transaction") else []
        return sink_pb2.HandleTransactionResponse(**self.handle(request, one))

    @guarded
    def HandleBatch(self, request, context):
        return sink_pb2.HandleBatchResponse(**self.handle(request, request.transactions))

    def handle(self, request, transactions):
        """All of the unit or nothing. Without a transaction it is an idle step."""
        counts, end = types_pb2.Counts(), 0
        with self.store.transaction():
            position = self.store.admit(request)
            run = self.snapshots.run(request.context)
            for transaction in transactions:
                if transaction.end_lsn <= end:
                    raise broken("end_lsn does not rise")
                end = transaction.end_lsn
                if end <= position:
                    counts.replayed_transactions += 1
                else:
                    self.mirror.apply(request.relations, transaction.changes, counts, run)
                    self.messages.among(request.context, transaction)
            self.store.commit(request.context, request, end, position)
        return {"checkpoint_lsn": request.checkpoint_lsn, "counts": counts}

    @guarded
    def HandleLargeTransaction(self, frames, context):
        """One transaction in many frames, applied as they come and committed by the last."""
        counts, relations, changes = types_pb2.Counts(), [], 0
        with self.store.transaction():
            frame = next(frames, sink_pb2.HandleLargeTransactionRequest())
            begin = frame.begin
            position = self.store.admit(begin)  # holds to the end: nobody else can write now
            run = self.snapshots.run(begin.context)
            for frame in frames:
                if frame.HasField("relation"):
                    relations.append(frame.relation)
                elif frame.HasField("changes") and frame.changes.first_change_index == changes:
                    self.mirror.apply(relations, frame.changes.changes, counts, run)
                    self.messages.among(begin.context, frame.changes, begin.commit_lsn, changes)
                    changes += len(frame.changes.changes)
                else:
                    break
            end = frame.commit
            if not frame.HasField("commit") or end.change_count != changes or any(frames):
                raise broken("a frame is missing, unknown or out of order")
            if end.end_lsn > position:
                self.store.commit(begin.context, end, end.end_lsn, position)
            else:  # we have it: what these frames did is rolled back
                counts = types_pb2.Counts(replayed_transactions=1)
        return sink_pb2.HandleLargeTransactionResponse(
            checkpoint_lsn=end.checkpoint_lsn, counts=counts
        )

    @guarded
    def HandleMessage(self, request, context):
        """A message outside of any transaction: stored with its LSN as the position."""
        call, message = request.context, request.message
        with self.store.transaction():
            position = self.store.admit(request)
            if message.lsn > position:
                self.messages.keep(call, message.lsn, 0, message)
            self.store.commit(call, request, message.lsn, position)
        return sink_pb2.HandleMessageResponse(checkpoint_lsn=request.checkpoint_lsn)

    @guarded
    def HandleSnapshot(self, request, context):
        """Rows beside the stream, or a token alone. No position is stored or answered."""
        with self.store.transaction():
            self.store.admit(request)
            self.snapshots.keep(request.context, request.unit)
            if request.unit.HasField("relation"):
                self.mirror.copy(request.unit)
            self.store.db.execute("COMMIT")
        return sink_pb2.HandleSnapshotResponse()

    @guarded
    def HandleSnapshotComplete(self, request, context):
        """The copy is whole: its position is the first one of the stream."""
        with self.store.transaction():
            position = self.store.admit(request)
            self.store.commit(request.context, request, 0, position)
        return sink_pb2.HandleSnapshotCompleteResponse(checkpoint_lsn=request.checkpoint_lsn)

    @guarded
    def SnapshotProgress(self, request, context):
        token = self.snapshots.token(request)
        return sink_pb2.SnapshotProgressResponse(progress_token=token)


def serve(listen, path):
    options = [
        ("grpc.max_receive_message_length", 64 << 20),
        ("grpc.http2.max_ping_strikes", 0),  # the sidecar may ask whether we live
        ("grpc.keepalive_time_ms", 15_000),  # and we ask too: a sidecar that hangs must not
        ("grpc.keepalive_timeout_ms", 15_000),  # hold a transaction open for long
        ("grpc.http2.ping_timeout_ms", 15_000),
        ("grpc.so_reuseport", 0),
    ]
    sink = SqliteSink(path)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8), options=options)
    sink_pb2_grpc.add_SinkServiceServicer_to_server(sink, server)
    server.add_insecure_port(listen)
    server.start()
    return server, sink


def main():
    listen = os.environ.get("REPLICANT_SINK_LISTEN", "unix:replicant-sink.sock")
    path = os.environ.get("REPLICANT_SINK_DB", "replicant-sink.db")
    os.umask(0o077)  # socket and rows are for this user alone
    stop = queue.SimpleQueue()  # a second signal may interrupt put, but not an Event's set
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.put(None))
    server, _ = serve(listen, path)
    print(f"listening on {listen}, storing in {path}", file=sys.stderr, flush=True)
    stop.get()
    server.stop(grace=10).wait()  # the call in flight may end


if __name__ == "__main__":
    main()
