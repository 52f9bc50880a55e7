"""The smallest sink that keeps its checkpoint: a log of all changes, three calls, no fencing.

It is what docs/writing-a-sink.md begins with. sink.py is what you would run.
"""

import os
import sqlite3
import sys
import threading
from concurrent import futures
from pathlib import Path

import grpc
from google.protobuf import json_format

sys.path.insert(0, str(Path(__file__).with_name("gen")))  # the stubs, made by generate.sh
from errors import broken, guarded, refused
from sink.v1 import sink_pb2, sink_pb2_grpc, types_pb2


class Log(sink_pb2_grpc.SinkServiceServicer):
    def __init__(self, path):
        self.lock, self.instance_id = threading.Lock(), os.urandom(16)
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.execute(
            "CREATE TABLE IF NOT EXISTS streams (stream TEXT PRIMARY KEY, position TEXT)"
        )
        self.db.execute("CREATE TABLE IF NOT EXISTS log (commit_lsn, ordinal, tables, change)")

    @guarded
    def GetCapabilities(self, request, context):
        return sink_pb2.GetCapabilitiesResponse(
            sink_name="minimal-log",
            instance_id=self.instance_id,
            sink_kind=types_pb2.SINK_KIND_APPEND_LOG,
            capabilities=[types_pb2.CAPABILITY_CHECKPOINT, types_pb2.CAPABILITY_TRANSACTION],
        )

    @guarded
    def Checkpoint(self, request, context):
        with self.lock:
            return sink_pb2.CheckpointResponse(position=self.position(request.stream_id))

    def position(self, stream):
        query = "SELECT position FROM streams WHERE stream = ?"
        row = self.db.execute(query, (stream,)).fetchone()
        return int(row[0]) if row else None  # None stays absent: never 0

    @guarded
    def HandleTransaction(self, request, context):
        if request.context.checkpoint_owner != types_pb2.CHECKPOINT_OWNER_SINK:
            raise broken("this sink keeps the checkpoint itself")
        with self.lock:
            self.db.execute("BEGIN IMMEDIATE")
            try:
                counts = self.store(request)
                self.db.execute("COMMIT")
            except BaseException:
                self.db.execute("ROLLBACK")
                raise
        return sink_pb2.HandleTransactionResponse(
            checkpoint_lsn=request.checkpoint_lsn, counts=counts
        )

    def store(self, request):
        counts, one = types_pb2.Counts(), request.transaction  # an idle step has none: end 0
        stored = self.position(request.context.stream_id)
        if request.HasField("expected_checkpoint") and (
            stored is None or request.expected_checkpoint > stored
        ):
            raise refused("CHECKPOINT_BEHIND", "what lies between was never stored here")
        if request.checkpoint_lsn < max(one.end_lsn, 1):
            raise broken("checkpoint_lsn is missing, or below the transaction's end")
        if one.end_lsn > (stored or 0):
            for ordinal, change in enumerate(one.changes):
                entry = (str(one.commit_lsn), ordinal, *told(request.relations, change))
                self.db.execute("INSERT INTO log VALUES (?, ?, ?, ?)", entry)
        elif request.HasField("transaction"):
            counts.replayed_transactions = 1
        if request.checkpoint_lsn > (stored or 0):
            entry = (request.context.stream_id, str(request.checkpoint_lsn))
            self.db.execute("REPLACE INTO streams VALUES (?, ?)", entry)
        return counts


def told(relations, change):
    """The tables of a change, and the change as it is: op, letters and values."""
    indexes = change.truncate.relation_indexes or [change.relation_index]
    letters = change.new_row.kinds + change.old_row.kinds
    known = change.op in (1, 2, 3, 4) and not letters.strip("tnua")
    if not known or max(indexes) >= len(relations):
        raise broken("an unknown op, letter or relation")
    names = (f"{relations[i].schema_name}.{relations[i].table_name}" for i in indexes)
    return ", ".join(names), json_format.MessageToJson(change)


def serve(listen, path):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    sink_pb2_grpc.add_SinkServiceServicer_to_server(Log(path), server)
    server.add_insecure_port(listen)
    server.start()
    return server


if __name__ == "__main__":
    listen = os.environ.get("REPLICANT_SINK_LISTEN", "unix:minimal-log.sock")
    serve(listen, "minimal-log.db").wait_for_termination()
