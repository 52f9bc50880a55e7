"""Messages: stored once with their position, alone and among the changes of a transaction."""

import contextlib
import sqlite3

import pytest
from client import insert, refused, relation
from sink.v1 import sink_pb2 as pb
from sink.v1 import types_pb2 as t

LOG = relation("log", "line", key=0)


def alone(client, lsn, prefix=b"p", content=b"c", context=None, **fields):
    message = t.LogicalMessage(lsn=lsn, prefix=prefix, content=content)
    call = {"context": context or client.context(), "checkpoint_lsn": lsn, **fields}
    return client.stub.HandleMessage(pb.HandleMessageRequest(message=message, **call))


def inside(prefix, content=b"c"):
    message = t.LogicalMessage(transactional=True, lsn=5, prefix=prefix, content=content)
    return t.Change(op=t.CHANGE_OP_MESSAGE, message=message)


def kept(client):
    with contextlib.closing(sqlite3.connect(client.path)) as db:
        query = "SELECT commit_lsn, ordinal, prefix, content FROM _replicant_messages"
        return list(db.execute(query + " ORDER BY rowid"))


def test_alone_and_again(client):
    for _ in range(2):
        answer = alone(client, 1 << 63, b"", b"\x00\xff", resume_state=b"shapes")
        assert answer.checkpoint_lsn == 1 << 63
        assert kept(client) == [(str(1 << 63), 0, b"", b"\x00\xff")]
        assert client.position() == 1 << 63
    assert client.read().resume_state == b"shapes"


def test_below_the_position_is_a_replay(client):
    client.transaction([LOG], insert("a"))
    at = client.position()
    assert alone(client, at).checkpoint_lsn == at
    assert alone(client, at - 1).checkpoint_lsn == at - 1
    assert kept(client) == [] and client.position() == at
    alone(client, at + 1, expected_checkpoint=at)
    assert len(kept(client)) == 1


def test_a_gap_and_an_old_epoch(client):
    with refused("CHECKPOINT_BEHIND"):
        alone(client, 50, expected_checkpoint=40)
    with refused("FENCED"):
        alone(client, 50, context=client.context(epoch=0))
    with refused(code="INVALID_ARGUMENT"):
        alone(client, 50, checkpoint_lsn=49)
    assert kept(client) == [] and client.position() is None


def test_not_stored_without_its_position(client, served):
    served[2].store.db.execute(
        "CREATE TRIGGER no BEFORE UPDATE ON _replicant_streams BEGIN SELECT raise(ABORT, 'x'); END"
    )
    with refused("UNIT_REJECTED"):
        alone(client, 50)
    assert kept(client) == [] and client.position() is None


@pytest.mark.parametrize("large", [False, True])
def test_among_the_changes(client, large):
    changes = [inside(b"1"), insert("a"), inside(b"2"), inside(b"")]
    for _ in range(2):
        if large:
            client.large(*client.frames(1010, [LOG], *changes))
        else:
            client.end = 1000
            client.transaction([LOG], *changes)
        assert kept(client) == [("1009", i, p, b"c") for i, p in ((0, b"1"), (2, b"2"), (3, b""))]
        assert client.rows("log") == [(b"a",)]


def test_where_the_sidecar_keeps_the_position(client, served):
    fields = {"epoch": 1, "instance_id": served[2].store.fence.instance_id}
    for sequence in (1, 2):  # it may come again
        owner = t.CHECKPOINT_OWNER_SIDECAR
        context = client.context(checkpoint_owner=owner, sequence=sequence, **fields)
        alone(client, 50, context=context, checkpoint_lsn=None)
    assert len(kept(client)) == 2 and client.position() is None
