"""Snapshots: what becomes of rows, of their marks, and of the token."""

import pytest
from client import ABSENT, KEPT, SOURCE, delete, insert, refused, relation, row, truncate, update
from sink.v1 import sink_pb2 as pb
from sink.v1 import types_pb2 as t

ITEM = relation("item", "id", "name", "text")
BAG = relation("bag", "a", "b", identity="FULL", key=0)
ROWS, ALL = t.SNAPSHOT_RESET_SNAPSHOT_ROWS, t.SNAPSHOT_RESET_ALL


def unit(client, generation, *rows, of=ITEM, first=None, context=None, expected=None, **fields):
    fields.update(first_for_table=bool(first), reset=first)
    one = t.SnapshotUnit(
        relation=of, rows=[row(r) for r in rows], run_id=b"r" * 16, generation=generation, **fields
    )
    call = {"context": context or client.context(), "expected_checkpoint": expected}
    return client.stub.HandleSnapshot(pb.HandleSnapshotRequest(unit=one, **call))


def sweep(client, generation):
    unit(client, generation, last_for_table=True, sweep=True)


def complete(client, at, **fields):
    done = t.SnapshotCompletion(run_id=b"r" * 16, generation=1, relations=[ITEM])
    call = {"context": client.context(), "checkpoint_lsn": at, "completion": done, **fields}
    return client.stub.HandleSnapshotComplete(pb.HandleSnapshotCompleteRequest(**call))


def progress(client, **source):
    source = t.SourceIdentity(**{**SOURCE, **source})
    request = pb.SnapshotProgressRequest(stream_id=client.stream, source=source)
    answer = client.stub.SnapshotProgress(request)
    return answer.progress_token if answer.HasField("progress_token") else None


class TestRows:
    def test_a_copied_row_takes_the_whole_place(self, client):
        client.transaction([ITEM], insert(1, "a", "x"), update(2, "b", KEPT))
        unit(client, 1, (1, None, "X"), (2, "b", "B"), (3, "c", "C"), first=ROWS)
        assert client.rows("item") == [(b"1", None, b"X"), (b"2", b"b", b"B"), (b"3", b"c", b"C")]

    def test_a_reset_spares_what_the_stream_touched(self, client):
        client.transaction([ITEM], insert(1, "a", "x"))
        unit(client, 1, *((i, "b", "x") for i in (1, 2, 3, 4, 6)), first=ROWS)
        client.transaction([ITEM], update(2, "c", KEPT), insert(6, "i", "I"))
        client.transaction([ITEM], update(5, "c", KEPT, key=[3, ABSENT, ABSENT]))
        unit(client, 1, (2, "d", "D"), first=ROWS)
        kept = [(b"1", b"b", b"x"), (b"2", b"d", b"D"), (b"5", b"c", b"x"), (b"6", b"i", b"I")]
        assert client.rows("item") == kept
        unit(client, 1, (9, "e", "E"), first=ALL)
        assert client.rows("item") == [(b"9", b"e", b"E")]

    def test_a_sweep_spares_what_either_has_touched(self, client):
        unit(client, 1, (1, "a", "x"), (2, "a", "x"), (3, "a", "x"), (4, "a", "x"), first=ROWS)
        unit(client, 2, of=None)
        client.transaction([ITEM], update(2, "b", KEPT), insert(5, "b", "x"))
        client.transaction([ITEM], update(6, "b", KEPT, key=[3, ABSENT, ABSENT]))
        unit(client, 2, (1, "c", "x"))
        assert len(client.rows("item")) == 5
        unit(client, 2, last_for_table=True)
        assert len(client.rows("item")) == 5
        sweep(client, 2)
        rows = [(b"1", b"c"), (b"2", b"b"), (b"5", b"b"), (b"6", b"b")]
        assert client.rows("item") == [(*two, b"x") for two in rows]

    def test_the_same_unit_again(self, client):
        for _ in range(2):
            unit(client, 1, (1, "a", "x"), (2, "b", "y"), first=ROWS)
        assert len(client.rows("item")) == 2

    def test_a_table_without_a_key(self, client):
        for _ in range(2):
            unit(client, 1, (1, 1), (1, 1), of=BAG, first=ALL)
        client.transaction([BAG], update(2, 2, full=[1, 1]))
        assert client.rows("bag") == [(b"1", b"1"), (b"2", b"2")]

    def test_truncate_and_unknown_rows(self, client):
        unit(client, 1, (1, "a", "x"), first=ROWS)
        client.transaction(
            [ITEM], delete(key=[9, ABSENT, ABSENT]), insert(2, "b", "y"), truncate(0)
        )
        assert client.rows("item") == []

    def test_a_row_that_lacks_a_column_is_refused(self, client):
        unit(client, 1, (1, "a", "x"), first=ROWS)
        with refused(code="INVALID_ARGUMENT"):
            unit(client, 1, (2, "b", "y"), (1, "b", KEPT), first=ALL)
        assert client.rows("item") == [(b"1", b"a", b"x")]


class TestToken:
    def test_it_comes_back_bit_by_bit(self, client):
        assert progress(client) is None
        for token in (b"", b"\x00\xff one", b"two"):
            unit(client, 1, of=None, progress_token=token)
            assert progress(client) == token
            unit(client, 1, (1, "a", "x"), first=ROWS)
            assert progress(client) == token
        client.transaction([ITEM], insert(2, "b", "y"))
        assert progress(client) == b"two"

    def test_the_generation_never_falls(self, client):
        unit(client, 3, (1, "a", "x"))
        unit(client, 2, of=None, progress_token=b"t")
        client.transaction([ITEM], insert(2, "b", "y"))
        sweep(client, 3)
        assert len(client.rows("item")) == 2

    def test_of_another_source(self, client):
        unit(client, 1, of=None, progress_token=b"t")
        with refused("SOURCE_MISMATCH"):
            progress(client, database="other")

    def test_streams_have_their_own(self, client, connect):
        other = connect(stream="other")
        other.claim(1)
        unit(client, 5, of=None, progress_token=b"t")
        assert progress(other) is None


class TestGuard:
    def test_epoch_and_gap(self, client, connect):
        client.claim(3)
        for context in (client.context(epoch=2), client.context(epoch=4)):
            with refused("FENCED" if context.epoch == 2 else "CHECKPOINT_BEHIND"):
                unit(client, 1, (1, "a", "x"), first=ALL, context=context, progress_token=b"t")
            with refused("FENCED" if context.epoch == 2 else "CHECKPOINT_BEHIND"):
                complete(client, 50, context=context)
        with refused("CHECKPOINT_BEHIND"):
            unit(client, 1, (1, "a", "x"), first=ALL, expected=70)
        with refused("CHECKPOINT_BEHIND"):
            complete(client, 80, expected_checkpoint=70)
        assert client.rows("item") is None and progress(client) is None
        assert client.position() is None

    def test_where_the_sidecar_keeps_the_checkpoint(self, served, client):
        sink = served[2]
        told = {"checkpoint_owner": t.CHECKPOINT_OWNER_SIDECAR, "sequence": 1}
        told["instance_id"] = sink.store.fence.instance_id
        unit(client, 1, (1, "a", "x"), first=ROWS, context=client.context(**told))
        with refused("STALE_DELIVERY"):
            unit(client, 1, (1, "b", "x"), first=ROWS, context=client.context(**told))
        assert client.rows("item") == [(b"1", b"a", b"x")]


class TestComplete:
    def test_the_position_is_the_first(self, client):
        unit(client, 1, (1, "a", "x"), first=ROWS)
        assert client.position() is None
        for _ in range(2):
            assert complete(client, 100, resume_state=b"r").checkpoint_lsn == 100
        assert client.position() == 100 and client.read().resume_state == b"r"

    def test_a_commit_that_starts_at_the_position_is_applied(self, client):
        complete(client, 100)
        one = t.Transaction(xid=7, commit_lsn=100, end_lsn=150, changes=[insert(1, "a", "x")])
        answer = client.batch([ITEM], one, checkpoint_lsn=150, expected_checkpoint=100)
        assert answer.counts == t.Counts(inserted=1)

    def test_without_a_position(self, client):
        with pytest.raises(Exception) as caught:
            complete(client, None)
        assert caught.value.code().name == "INVALID_ARGUMENT"
