"""Who may write, how far we are, and what a replay, a gap and an idle step do."""

import sqlite3

import pytest
from client import SECRET, insert, refused, relation, transaction
from sink.v1 import sink_pb2
from sink.v1 import types_pb2 as t

LOG = relation("log", "line", key=0)  # no key: what is applied twice is there twice
OTHER = b"o" * 16


def test_capabilities(connect):
    one, two = connect(), connect()
    first = one.stub.GetCapabilities(pb_capabilities())
    second = two.stub.GetCapabilities(pb_capabilities(minor=99))
    assert first == second and len(first.instance_id) == 16
    assert first.sink_kind == t.SINK_KIND_STATE_MIRROR
    assert list(first.fencing) == [t.FENCING_STORED, t.FENCING_INSTANCE]
    assert [t.Capability.Name(one)[len("CAPABILITY_") :] for one in first.capabilities] == [
        "CHECKPOINT",
        "TRANSACTION",
        "BATCH",
        "LARGE_TRANSACTION",
        "MESSAGE",
        "RESUME_STATE",
        "SNAPSHOT",
        "SNAPSHOT_COMPLETE",
        "SNAPSHOT_PROGRESS",
    ]


def pb_capabilities(minor=1):
    return sink_pb2.GetCapabilitiesRequest(protocol_minor=minor)


def test_limits_are_true(client):
    limits = client.stub.GetCapabilities(pb_capabilities()).limits
    value = "x" * (limits.max_request_bytes - 1000)
    client.transaction([LOG], insert(value))
    assert client.rows("log") == [(value.encode(),)]


class TestClaim:
    def test_a_read_creates_nothing(self, connect):
        one = connect()
        before = one.dump()
        answer = one.read()
        assert not answer.HasField("position") and answer.epoch == 0 and not answer.lineage
        assert one.dump() == before == []

    def test_a_claim_stores_the_epoch_and_no_position(self, connect):
        one = connect()
        answer = one.claim(1)
        assert answer.epoch == 1 and not answer.HasField("position") and len(answer.lineage) == 16
        assert not answer.HasField("resume_state")
        assert one.read() == answer

    def test_a_repeat_of_the_same_sender_is_the_same_claim(self, client):
        client.transaction([LOG], insert("a"))
        again = client.claim(1)
        assert again.epoch == 1 and again.position == client.end

    def test_another_sender_or_a_lower_epoch_is_fenced(self, client):
        with refused("FENCED"):
            client.claim(1, OTHER)
        client.claim(5)
        for epoch in (0, 1, 4):
            with refused("FENCED"):
                client.claim(epoch)
        assert client.read().epoch == 5

    def test_epoch_0_claims_nothing(self, connect):
        one = connect()
        with refused("FENCED"):
            one.claim(0)
        assert one.dump() == []

    def test_a_higher_epoch_takes_over_and_lineage_stays(self, client):
        client.transaction([LOG], insert("a"))
        before = client.read()
        after = client.claim(2, OTHER)
        assert (after.epoch, after.position, after.lineage) == (2, client.end, before.lineage)
        with refused("FENCED"):
            client.claim(2)

    @pytest.mark.parametrize("field", ["system_identifier", "database"])
    def test_another_source_is_refused_and_stores_nothing(self, client, field):
        before = client.dump()
        for call in (client.read, lambda **source: client.claim(9, **source)):
            with refused("SOURCE_MISMATCH"):
                call(**{field: "another"})
        assert client.dump() == before

    def test_slot_and_timeline_are_not_bound(self, client):
        assert client.claim(2, slot="another", timeline=9).epoch == 2

    def test_streams_are_independent(self, client, connect):
        two = connect(stream="two")
        assert not two.read(database="another").HasField("position")
        two.claim(7, database="another")
        assert client.read().epoch == 1
        assert two.read(database="another").lineage != client.read().lineage

    def test_all_64_bits(self, client):
        top = 2**64 - 1
        client.claim(top)
        client.end = top - 10
        client.transaction([LOG], insert("a"))
        assert (client.position(), client.read().epoch) == (top, top)
        answer = client.batch([], checkpoint_lsn=1, expected_checkpoint=top)
        assert answer.checkpoint_lsn == 1 and client.position() == top


class TestAdmission:
    @pytest.mark.parametrize("owner", [0, 9])
    def test_another_owner(self, client, owner):
        with refused(code="INVALID_ARGUMENT"):
            client.transaction([LOG], insert("a"), context=client.context(checkpoint_owner=owner))

    @pytest.mark.parametrize("epoch", [0, 1])
    def test_a_stream_without_a_claim(self, connect, epoch):
        one = connect()
        one.epoch = epoch
        with refused("CHECKPOINT_BEHIND"):
            one.transaction([LOG], insert("a"))
        assert one.dump() == []

    def test_a_lower_epoch_is_fenced_and_a_higher_one_is_not_here(self, client):
        client.claim(5)
        for epoch, reason in ((4, "FENCED"), (6, "CHECKPOINT_BEHIND")):
            with refused(reason):
                client.transaction([LOG], insert("a"), context=client.context(epoch=epoch))
            with refused(reason):
                frames = client.frames(2000, [LOG], insert("a"))
                first = next(frames)
                first.begin.context.epoch = epoch
                client.large(first, *frames)
        assert client.rows("log") is None and client.position() is None

    def test_instance_and_sequence_are_not_tested(self, client):
        for _ in range(2):
            context = client.context(sequence=1, instance_id=b"another")
            client.transaction([LOG], insert("a"), context=context)
        assert len(client.rows("log")) == 2

    @pytest.mark.parametrize("expected", [0, 1, 5000])
    def test_a_gap_where_nothing_was_stored(self, client, expected):
        with refused("CHECKPOINT_BEHIND"):
            client.transaction([LOG], insert("a"), expected_checkpoint=expected)
        with refused("CHECKPOINT_BEHIND"):
            client.large(*client.frames(6000, [LOG], insert("a"), expected_checkpoint=expected))
        assert client.position() is None and client.rows("log") is None

    def test_a_gap_above_the_position(self, client):
        client.transaction([LOG], insert("a"))
        position = client.end
        with refused("CHECKPOINT_BEHIND"):
            client.transaction([LOG], insert("b"), expected_checkpoint=position + 1)
        with refused("CHECKPOINT_BEHIND"):
            client.batch([], checkpoint_lsn=9000, expected_checkpoint=position + 1)
        assert client.position() == position and len(client.rows("log")) == 1

    def test_the_position_itself_or_a_lower_one_is_lawful(self, client):
        client.transaction([LOG], insert("a"))
        for expected in (client.end, 1, 0):
            client.transaction([LOG], insert("b"), expected_checkpoint=expected)
        assert len(client.rows("log")) == 4


class TestPosition:
    def test_it_is_stored_with_the_rows_and_answered(self, client):
        answer = client.transaction([LOG], insert("a"), insert("b"))
        assert answer.checkpoint_lsn == client.end == client.position()
        assert (answer.counts.inserted, answer.counts.replayed_transactions) == (2, 0)

    def test_a_replay_changes_nothing_and_answers_its_own(self, client):
        for line in "ab":
            client.transaction([LOG], insert(line))
        before = client.dump()
        client.end -= 20
        for expected in ({}, {"expected_checkpoint": 1000}):
            answer = client.transaction([LOG], insert("a"), **expected)
            assert answer.checkpoint_lsn == client.end == client.position() - 10
            assert answer.counts == t.Counts(replayed_transactions=1)
            client.end -= 10
        assert client.dump() == before

    def test_a_batch_that_is_partly_here(self, client):
        client.batch([LOG], *(transaction(n, insert(n)) for n in (10, 20)))
        answer = client.batch([LOG], *(transaction(n, insert(n)) for n in (20, 30, 40)))
        assert answer.counts == t.Counts(inserted=2, replayed_transactions=1)
        assert answer.checkpoint_lsn == client.position() == 40
        assert client.rows("log") == [(b"10",), (b"20",), (b"30",), (b"40",)]

    def test_any_grouping_leads_to_the_same(self, client):
        units = [transaction(n, insert(n)) for n in range(10, 90, 10)]
        for low, high in ((0, 3), (0, 2), (1, 5), (4, 5), (0, 6), (3, 8), (7, 8)):
            client.batch([LOG], *units[low:high])
        assert client.rows("log") == [(b"%d" % n,) for n in range(10, 90, 10)]

    def test_a_commit_record_that_starts_at_the_position_is_new(self, client):
        client.batch([LOG], transaction(100, insert("a")))
        client.batch([LOG], transaction(150, insert("b"), start=100))
        assert len(client.rows("log")) == 2

    def test_idle_steps_of_both_calls(self, client):
        answer = client.batch([], checkpoint_lsn=500)
        assert answer.checkpoint_lsn == client.position() == 500
        request = client.batch([], checkpoint_lsn=600, expected_checkpoint=500)
        assert request.checkpoint_lsn == client.position() == 600
        idle = sink_pb2.HandleTransactionRequest(context=client.context(), checkpoint_lsn=700)
        assert client.stub.HandleTransaction(idle).checkpoint_lsn == client.position() == 700
        assert client.batch([], checkpoint_lsn=650).checkpoint_lsn == 650
        assert client.position() == 700

    @pytest.mark.parametrize("checkpoint", [None, 0, 99])
    def test_it_is_never_computed(self, client, checkpoint):
        with refused(code="INVALID_ARGUMENT"):
            client.batch([LOG], transaction(100, insert("a")), checkpoint_lsn=checkpoint)
        assert client.position() is None and client.rows("log") is None

    def test_an_idle_step_without_one(self, client):
        with refused(code="INVALID_ARGUMENT"):
            client.batch([], checkpoint_lsn=None)

    @pytest.mark.parametrize("ends", [(20, 10), (20, 20)])
    def test_ends_rise_within_a_batch(self, client, ends):
        with refused(code="INVALID_ARGUMENT"):
            client.batch([LOG], *(transaction(n, insert(n)) for n in ends), checkpoint_lsn=20)
        assert client.rows("log") is None

    def test_resume_state(self, client):
        client.batch([LOG], transaction(10, insert("a")), resume_state=b"\x00one")
        client.batch([LOG], transaction(20, insert("b")))
        assert client.read().resume_state == b"\x00one"
        client.batch([LOG], transaction(10, insert("a")), resume_state=b"old")
        assert client.read().resume_state == b"\x00one"
        client.batch([], checkpoint_lsn=30, resume_state=b"")
        assert client.claim(2).HasField("resume_state") and client.read().resume_state == b""


class TestRefusal:
    def test_nothing_of_a_refused_unit_stays(self, client):
        client.transaction([LOG], insert("a"))
        before = client.dump()
        new = relation("new", "id")
        fault = insert("b", of=7)
        good = transaction(2000, insert("b", of=0), insert(1, of=1))
        with refused(code="INVALID_ARGUMENT"):
            client.batch([LOG, new], good, transaction(2010, insert("c"), fault))
        assert client.dump() == before
        # What was learned of the table in the refused unit is forgotten too.
        client.batch([], checkpoint_lsn=1500)
        client.end = 1990
        client.transaction([LOG, new], insert(1, of=1))
        assert client.rows("new") == [(b"1",)]

    def test_a_constraint_refuses_the_unit_without_values(self, client, served):
        client.transaction([LOG], insert("a"))
        served[2].store.db.execute(
            f"""CREATE TRIGGER no BEFORE INSERT ON "public.log" WHEN new.line = '{SECRET}'
            BEGIN SELECT RAISE(ABORT, '{SECRET}'); END"""
        )
        with refused("UNIT_REJECTED"):
            client.transaction([LOG], insert("b"), insert(SECRET))
        assert client.rows("log") == [(b"a",)]

    def test_a_fault_of_the_sink_is_internal_without_values(
        self, client, served, monkeypatch, capfd
    ):
        def fail(*_):
            raise ValueError(SECRET)

        monkeypatch.setattr(served[2].mirror, "apply", fail)
        with refused(code="INTERNAL"):
            client.transaction([LOG], insert(SECRET))
        assert client.position() is None
        printed = capfd.readouterr().err
        assert "INTERNAL  ValueError" in printed and SECRET not in printed

    def test_a_locked_file_is_not_ready(self, client, served, connect):
        served[2].store.db.execute("PRAGMA busy_timeout = 20")
        blocker = sqlite3.connect(client.path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        with refused("NOT_READY", code="UNAVAILABLE"):
            client.transaction([LOG], insert("a"))
        assert not client.read().HasField("position")
        blocker.execute("ROLLBACK")
        blocker.close()
        client.transaction([LOG], insert("a"))

    def test_what_is_not_advertised_is_not_there(self, client):
        with refused(code="UNIMPLEMENTED"):
            client.stub.HandleSchemaChange(sink_pb2.HandleSchemaChangeRequest())
