"""A transaction in frames: nothing shows before the commit frame, then all of it does."""

import queue
import threading

import grpc
import pytest
from client import ABSENT, delete, frame, insert, refused, relation, update
from sink.v1 import sink_pb2 as pb
from sink.v1 import types_pb2 as t

ITEM = relation("item", "id", "v")
LOG = relation("log", "line", key=0)


class Stream:
    """A call whose frames the test sends one by one."""

    def __init__(self, client):
        self.frames = queue.Queue()
        self.call = client.stub.HandleLargeTransaction.future(iter(self.frames.get, None))

    def send(self, *frames):
        for one in frames:
            self.frames.put(one)
        return self

    def end(self):
        self.frames.put(None)
        return self.call.result(timeout=20)


def eventually_blocked(thread):
    thread.join(timeout=0.3)
    return thread.is_alive()


def test_all_of_it_at_the_commit(client):
    changes = [insert(n, "x") for n in range(5000)] + [insert(7, of=1), update(1, "y")]
    answer = client.large(*client.frames(2000, [ITEM, LOG], *changes))
    assert answer.checkpoint_lsn == client.position() == 2000
    assert answer.counts == t.Counts(inserted=5001, updated=1)
    assert len(client.rows("item")) == 5000 and (b"1", b"y") in client.rows("item")


def test_relations_count_from_0_and_may_come_later(client):
    grown = relation("item", "id", "v", "w")
    begin, *_, commit = client.frames(2000, [], count=3)

    def changes(first, *changes):
        return frame(changes=pb.LargeChanges(first_change_index=first, changes=changes))

    frames = [begin, frame(relation=LOG), frame(relation=ITEM), changes(0, insert(1, 2, of=1))]
    frames += [
        frame(relation=grown),
        changes(1, insert(2, 3, 4, of=2), delete(key=[1, ABSENT, ABSENT], of=2)),
    ]
    client.large(*frames, commit)
    assert client.rows("item") == [(b"2", b"3", b"4")]


def test_nothing_shows_before(client, connect):
    client.transaction([LOG], insert("before"))
    before = client.dump()
    stream, frames = (
        Stream(client),
        list(client.frames(2000, [ITEM, LOG], insert(1, 2), insert(3, of=1))),
    )
    stream.send(*frames[:-1])
    # A claim waits for the transaction that is open, so it tells when the frames arrived.
    two, answers = connect(), []
    claim = threading.Thread(target=lambda: answers.append(two.claim(2)))
    claim.start()
    assert eventually_blocked(claim)
    assert client.dump() == before and client.position() == client.end
    stream.send(frames[-1])
    assert stream.end().checkpoint_lsn == 2000
    claim.join(timeout=20)
    assert answers[0].position == 2000  # with what the write in progress wrote
    assert client.rows("item") == [(b"1", b"2")]


@pytest.mark.parametrize("how", ["cancel", "disconnect", "half-close"])
def test_without_a_commit_frame_it_never_happened(client, connect, how):
    one = connect()
    one.claim(2)
    stream, frames = Stream(one), list(one.frames(2000, [ITEM], insert(1, 2)))
    stream.send(*frames[:-1])
    threading.Event().wait(0.2)
    if how == "cancel":
        stream.call.cancel()
    elif how == "disconnect":
        one.channel.close()
    else:
        with refused(code="INVALID_ARGUMENT"):
            stream.end()
    answer = client.claim(3)
    assert not answer.HasField("position") and client.rows("item") is None
    client.transaction([ITEM], insert(5, 6))
    assert client.rows("item") == [(b"5", b"6")]
    stream.send(None)


def test_a_replay_drops_the_whole(client):
    frames = list(client.frames(2000, [LOG], insert("a")))
    client.large(*frames)
    before = client.dump()
    new = list(client.frames(2000, [LOG, ITEM], insert("a"), insert(1, 2, of=1)))
    for again in (frames, new, list(client.frames(1500, [LOG], insert("b")))):
        answer = client.large(*again)
        assert answer.counts == t.Counts(replayed_transactions=1)
        assert answer.checkpoint_lsn == again[-1].commit.checkpoint_lsn
    assert client.dump() == before
    client.large(*client.frames(3000, [ITEM], insert(1, 2)))
    assert client.rows("item") == [(b"1", b"2")]


def broken_frames(client):
    begin, one, change, commit = client.frames(2000, [ITEM], insert(1, 2))
    late = frame(changes=pb.LargeChanges(first_change_index=1, changes=[insert(2, 2)]))
    yield "nothing", []
    yield "begin alone", [begin]
    yield "no begin", [one, change, commit]
    yield "second begin", [begin, begin, one, change, commit]
    yield "unset frame", [begin, one, frame(), change, commit]
    yield "schema change, not advertised", [begin, frame(schema_change=t.SchemaChange()), commit]
    yield "no commit", [begin, one, change]
    yield "frame after commit", [begin, one, change, commit, one]
    yield "wrong first index", [begin, one, late, commit]
    yield "the same changes twice", [begin, one, change, change, commit]
    yield "unknown relation", [begin, change, commit]
    few, many, low = (pb.HandleLargeTransactionRequest() for _ in range(3))
    for wrong in (few, many, low):
        wrong.CopyFrom(commit)
    few.commit.change_count, many.commit.change_count, low.commit.checkpoint_lsn = 0, 2, 1999
    yield "count too low", [begin, one, change, few]
    yield "count too high", [begin, one, change, many]
    yield "checkpoint below the end", [begin, one, change, low]


def test_broken_frames_store_nothing(client):
    client.transaction([LOG], insert("a"))
    before = client.dump()
    for name, frames in broken_frames(client):
        try:
            with refused(code="INVALID_ARGUMENT"):
                client.large(*frames)
        except (AssertionError, grpc.RpcError) as error:
            raise AssertionError(name) from error
        assert client.dump() == before, name


def test_resume_state(client):
    begin, relations, change, commit = client.frames(2000, [LOG], insert("a"))
    commit.commit.resume_state = b"state"
    client.large(begin, relations, change, commit)
    assert client.read().resume_state == b"state"
