"""A commit record that starts exactly at the position: it ends above it and is new."""

from client import insert, relation, transaction

ITEM = relation("item", "id", "v")


def test_a_large_transaction_that_starts_at_the_position_is_new(client):
    client.batch([], checkpoint_lsn=2000)
    frames = client.frames(2010, [ITEM], insert(1, 2), commit_lsn=2000)
    assert client.large(*frames).counts.replayed_transactions == 0
    assert client.rows("item") == [(b"1", b"2")] and client.position() == 2010


def test_it_is_new_in_every_place_of_a_batch(client):
    client.batch([], checkpoint_lsn=2000)
    units = [transaction(end, insert(end, "x"), start=end - 10) for end in (2010, 2020, 2030)]
    answer = client.batch([ITEM], *units)
    assert answer.counts.replayed_transactions == 0
    assert len(client.rows("item")) == 3
