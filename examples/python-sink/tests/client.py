"""What the tests say to a sink: the messages of the contract, in short words."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
import read
from sink.v1 import sink_pb2 as pb
from sink.v1 import sink_pb2_grpc
from sink.v1 import types_pb2 as t

SOURCE = {"system_identifier": "7000000000000000001", "database": "shop"}
SECRET = "secret-value"


def relation(table, *columns, identity="DEFAULT", schema="public", key=1, pk=None):
    """A relation of text columns, of which the first ones (or those named) are the key."""
    key = list(columns[:key]) if isinstance(key, int) else key
    pk = key if pk is None else pk
    return t.Relation(
        schema_name=schema,
        table_name=table,
        replica_identity=t.ReplicaIdentity.Value("REPLICA_IDENTITY_" + identity),
        columns=[
            t.Column(
                name=name,
                type_oid=25,
                identity=identity == "FULL" or (identity != "NOTHING" and name in key),
                primary_key_position=pk.index(name) + 1 if name in pk else None,
            )
            for name in columns
        ],
    )


class Letter:
    def __init__(self, letter):
        self.letter = letter


KEPT, ABSENT = Letter("u"), Letter("a")


def row(values):
    """None is NULL; KEPT and ABSENT are their letters; anything else is a value."""
    out = t.Row()
    for value in values:
        if isinstance(value, Letter):
            kind, value = value.letter, b""
        elif value is None:
            kind, value = "n", b""
        else:
            kind, value = "t", value if isinstance(value, bytes) else str(value).encode()
        out.kinds += kind
        out.values.append(value)
    return out


def insert(*values, of=0):
    return t.Change(op=t.CHANGE_OP_INSERT, relation_index=of, new_row=row(values))


def update(*values, key=None, full=None, of=0):
    change = t.Change(op=t.CHANGE_OP_UPDATE, relation_index=of, new_row=row(values))
    return old(change, key, full)


def delete(key=None, full=None, of=0):
    return old(t.Change(op=t.CHANGE_OP_DELETE, relation_index=of), key, full)


def old(change, key, full):
    if key is not None:
        change.old_row_kind = t.OLD_ROW_KIND_KEY
        change.old_row.CopyFrom(row(key))
    elif full is not None:
        change.old_row_kind = t.OLD_ROW_KIND_FULL
        change.old_row.CopyFrom(row(full))
    return change


def truncate(*indexes):
    tables = t.Truncate(relation_indexes=indexes)
    return t.Change(op=t.CHANGE_OP_TRUNCATE, truncate=tables)


def transaction(end, *changes, start=None):
    return t.Transaction(xid=7, commit_lsn=start or end - 1, end_lsn=end, changes=changes)


class Client:
    """One sidecar of one stream. Its calls carry what the contract asks for."""

    def __init__(self, listen, path, stream="orders", sender=b"s" * 16):
        self.channel = grpc.insecure_channel(listen)
        self.stub = sink_pb2_grpc.SinkServiceStub(self.channel)
        self.path, self.stream, self.sender = path, stream, sender
        self.epoch, self.end = 0, 1000

    def ready(self):
        grpc.channel_ready_future(self.channel).result(timeout=20)
        return self

    def read(self, **source):
        source = t.SourceIdentity(**{**SOURCE, **source})
        return self.stub.Checkpoint(pb.CheckpointRequest(stream_id=self.stream, source=source))

    def claim(self, epoch, sender=None, **source):
        request = pb.CheckpointRequest(
            stream_id=self.stream,
            source=t.SourceIdentity(**{**SOURCE, **source}),
            claim=pb.CheckpointClaim(epoch=epoch, sender_id=sender or self.sender),
        )
        answer = self.stub.Checkpoint(request)
        self.epoch = epoch
        return answer

    def context(self, **fields):
        told = {"stream_id": self.stream, "epoch": self.epoch, "sender_id": self.sender}
        told["checkpoint_owner"] = t.CHECKPOINT_OWNER_SINK
        return t.StreamContext(**{**told, **fields})

    def transaction(self, relations, *changes, **fields):
        """One transaction that ends at the next position, by HandleTransaction."""
        self.end += 10
        one = transaction(self.end, *changes)
        request = {"context": self.context(), "checkpoint_lsn": self.end, **fields}
        call = pb.HandleTransactionRequest(relations=relations, transaction=one, **request)
        return self.stub.HandleTransaction(call)

    def batch(self, relations, *transactions, **fields):
        checkpoint = transactions[-1].end_lsn if transactions else None
        request = {"context": self.context(), "checkpoint_lsn": checkpoint, **fields}
        call = pb.HandleBatchRequest(relations=relations, transactions=transactions, **request)
        return self.stub.HandleBatch(call)

    def frames(self, end, relations, *changes, count=None, **begin):
        begin = {"context": self.context(), "xid": 7, "commit_lsn": end - 1, **begin}
        yield frame(begin=pb.LargeBegin(**begin))
        for one in relations:
            yield frame(relation=one)
        for i, change in enumerate(changes):
            yield frame(changes=pb.LargeChanges(first_change_index=i, changes=[change]))
        count = len(changes) if count is None else count
        yield frame(commit=pb.LargeCommit(end_lsn=end, checkpoint_lsn=end, change_count=count))

    def large(self, *frames):
        return self.stub.HandleLargeTransaction(iter(frames))

    def rows(self, table, schema="public"):
        """What another process sees: the rows as bytes, columns in the order of their names."""
        with read.opened(self.path) as db:
            columns = read.tables(db).get((schema, table))
            return columns and [tuple(row) for row in read.rows(db, schema, table, columns)]

    def position(self):
        answer = self.read()
        return answer.position if answer.HasField("position") else None

    def dump(self):
        with read.opened(self.path) as db:
            return [json.dumps(line) for line in read.dump(db)]


def frame(**one):
    return pb.HandleLargeTransactionRequest(**one)


@contextlib.contextmanager
def refused(reason=None, code="FAILED_PRECONDITION"):
    """The call inside must fail with this code and this reason, and must not say values."""
    with pytest.raises(grpc.RpcError) as caught:
        yield
    error = caught.value
    trailing = dict(error.trailing_metadata() or ())
    assert (error.code().name, trailing.get("sink-reason")) == (code, reason), error.details()
    assert SECRET not in error.details()


def start(listen, path, **environment):
    """sink.py as a process of its own."""
    variables = {"REPLICANT_SINK_LISTEN": listen, "REPLICANT_SINK_DB": path, **environment}
    command = [sys.executable, str(Path(__file__).parents[1] / "sink.py")]
    return subprocess.Popen(command, env={**os.environ, **variables})
