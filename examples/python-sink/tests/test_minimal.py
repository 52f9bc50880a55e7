"""The smallest sink, with which the guide begins, keeps the rules that it needs."""

import sqlite3

import pytest
from client import ABSENT, KEPT, Client, delete, insert, refused, relation, truncate, update
from conftest import load
from sink.v1 import sink_pb2 as pb
from sink.v1 import types_pb2 as t

ITEM = relation("item", "id", "v")
PAIR = relation("pair", "id", "v")


@pytest.fixture
def client(tmp_path):
    listen, path = f"unix:{tmp_path}/log.sock", str(tmp_path / "log.db")
    server = load("minimal").serve(listen, path)
    one = Client(listen, path).ready()
    yield one
    one.channel.close()
    server.stop(None).wait()


def log(client):
    db = sqlite3.connect(client.path)
    try:
        return db.execute("SELECT commit_lsn, ordinal, tables, change FROM log").fetchall()
    finally:
        db.close()


def test_every_change_is_an_entry_in_order(client):
    changes = [insert(1, "a"), update(1, KEPT), delete(key=[1, ABSENT]), truncate(0, 1)]
    answer = client.transaction([ITEM, PAIR], *changes)
    assert answer.checkpoint_lsn == client.position() == client.end
    entries = log(client)
    assert [entry[:2] for entry in entries] == [(str(client.end - 1), i) for i in range(4)]
    assert [entry[2] for entry in entries] == ["public.item"] * 3 + ["public.item, public.pair"]
    assert '"tu"' in entries[1][3] and "CHANGE_OP_DELETE" in entries[2][3]


def test_replay_gap_and_idle_step(client):
    with refused("CHECKPOINT_BEHIND"):
        client.transaction([ITEM], insert(1, "a"), expected_checkpoint=0)
    assert client.position() is None
    client.transaction([ITEM], insert(1, "a"))
    position = client.end
    client.end -= 10
    assert client.transaction([ITEM], insert(1, "a")).counts.replayed_transactions == 1
    with refused("CHECKPOINT_BEHIND"):
        client.transaction([ITEM], insert(2, "b"), expected_checkpoint=position + 1)
    idle = pb.HandleTransactionRequest(context=client.context(), checkpoint_lsn=position + 5)
    assert client.stub.HandleTransaction(idle).checkpoint_lsn == client.position() == position + 5
    client.end = position
    client.transaction([ITEM], insert(2, "b"))
    client.end = position - 10
    assert client.transaction([ITEM], insert(1, "a")).checkpoint_lsn == position
    assert client.position() == position + 10
    assert len(log(client)) == 2


@pytest.mark.parametrize(
    "change",
    [
        insert(1, "a", of=1),
        t.Change(op=t.CHANGE_OP_MESSAGE),
        t.Change(op=t.CHANGE_OP_INSERT, new_row=t.Row(kinds="tb", values=[b"1", b"2"])),
    ],
    ids=["relation", "message", "letter"],
)
def test_a_refused_unit_leaves_nothing(client, change):
    with refused(code="INVALID_ARGUMENT"):
        client.transaction([ITEM], insert(1, "a"), change)
    assert log(client) == [] and client.position() is None


def test_another_owner_and_a_missing_position(client):
    sidecar = client.context(checkpoint_owner=t.CHECKPOINT_OWNER_SIDECAR)
    for fields in ({"context": sidecar}, {"checkpoint_lsn": None}, {"checkpoint_lsn": 1}):
        with refused(code="INVALID_ARGUMENT"):
            client.transaction([ITEM], insert(1, "a"), **fields)
    assert log(client) == []
