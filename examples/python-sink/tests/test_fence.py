"""The checkpoint is the sidecar's: the memory fence, no skip, no gap, no position stored."""

import pytest
from client import Client, delete, insert, refused, relation, start, transaction, update
from sink.v1 import sink_pb2 as pb
from sink.v1 import types_pb2 as t

LOG = relation("log", "line", key=0)  # no key: what is applied twice is there twice
KEYED = relation("keyed", "id", "v")


class Lib(Client):
    """A sidecar that keeps its checkpoint: it asks who is there and counts its calls."""

    def __init__(self, *args, epoch=1, **who):
        super().__init__(*args, **who)
        self.epoch, self.sequence = epoch, 0
        self.introduce()

    def introduce(self):
        about = self.stub.GetCapabilities(pb.GetCapabilitiesRequest(protocol_minor=1))
        assert t.FENCING_INSTANCE in about.fencing
        self.instance_id = about.instance_id

    def context(self, **fields):
        self.sequence += 1
        told = {
            "checkpoint_owner": t.CHECKPOINT_OWNER_SIDECAR,
            "instance_id": self.instance_id,
            "sequence": self.sequence,
        }
        return super().context(**{**told, **fields})


@pytest.fixture
def lib(served):
    made = []

    def lib(**who):
        made.append(Lib(served[0], served[1], **who))
        return made[-1]

    yield lib
    for one in made:
        one.channel.close()


def test_a_repeat_takes_effect_again_and_positions_mean_nothing(lib):
    one = lib()
    for _ in range(2):
        answer = one.stub.HandleTransaction(
            pb.HandleTransactionRequest(
                context=one.context(),
                relations=[LOG],
                transaction=transaction(2000, insert("a")),
                checkpoint_lsn=2000,
                expected_checkpoint=1 << 40,
            )
        )
        assert answer.counts.inserted == 1 and not answer.counts.replayed_transactions
    assert one.rows("log") == [(b"a",), (b"a",)]
    assert one.read() == pb.CheckpointResponse(), "a position was stored"


def test_a_keyed_table_bears_a_repeat(lib):
    one = lib()
    changes = [insert(1, "a"), insert(2, "b"), update(3, "c", key=(2, "")), delete(key=(1, ""))]
    for _ in range(3):
        one.transaction([KEYED], *changes)
        assert one.rows("keyed") == [(b"3", b"c")]


def test_fence(lib):
    one = lib()
    one.transaction([LOG], insert("a"))
    for sequence in (one.sequence, one.sequence - 1, 0):
        with refused("STALE_DELIVERY"):
            one.transaction([LOG], insert("late"), context=one.context(sequence=sequence))
    with refused("INSTANCE_CHANGED"):
        one.transaction([LOG], insert("late"), context=one.context(instance_id=b"another"))
    with refused("INSTANCE_CHANGED"):
        one.transaction([LOG], insert("late"), context=one.context(instance_id=b""))
    two = lib(epoch=2, sender=b"o" * 16)
    two.transaction([LOG], insert("b"))
    with refused("FENCED"):
        one.transaction([LOG], insert("late"))
    with refused("FENCED"):
        one.large(*one.frames(5000, [LOG], insert("late")))
    other = lib(stream="another stream")
    other.transaction([LOG], insert("c"))
    assert one.rows("log") == [(b"a",), (b"b",), (b"c",)]


def test_large(lib):
    one = lib()
    for _ in range(2):
        answer = one.large(*one.frames(2000, [LOG], insert("a"), insert("b")))
        assert answer.counts.inserted == 2
    frames = list(one.frames(3000, [LOG], insert("late")))
    one.transaction([LOG], insert("c"))
    with refused("STALE_DELIVERY"):
        one.large(*frames)
    assert [line for (line,) in one.rows("log")] == [b"a", b"a", b"b", b"b", b"c"]


def test_both_owners_on_one_file(lib, client):
    """Two streams, one each way; the position of one is not touched by the other."""
    one = lib(stream="theirs")
    client.transaction([LOG], insert("a"))
    before = client.position()
    one.transaction([LOG], insert("b"))
    assert client.position() == before == client.end


def test_a_new_process_is_another_instance(tmp_path):
    listen, path = f"unix:{tmp_path}/sink.sock", str(tmp_path / "mirror.db")
    first = start(listen, path)
    try:
        Client(listen, path).ready().channel.close()
        one = Lib(listen, path)
        one.transaction([LOG], insert("a"))
    finally:
        first.kill()
        first.wait()
    second = start(listen, path)
    try:
        one.ready()
        with refused("INSTANCE_CHANGED"):
            one.transaction([LOG], insert("b"))
        one.introduce()
        one.transaction([LOG], insert("b"))
        assert one.rows("log") == [(b"a",), (b"b",)]
        one.channel.close()
    finally:
        second.kill()
        second.wait()
