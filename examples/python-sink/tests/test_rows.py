"""What a change does to the rows of a mirror."""

import contextlib
import itertools
import re
import sqlite3

import pytest
import read
from client import ABSENT, KEPT, delete, insert, refused, relation, row, truncate, update
from mirror import safe
from sink.v1 import types_pb2 as t

ITEM = relation("item", "id", "name", "text")
PAIR = relation("pair", "b", "a", "v", key=["a", "b"])
FULL = relation("full", "id", "v", identity="FULL")
BARE = relation("bare", "a", "b", identity="FULL", key=0)


class TestKeyed:
    def test_insert_update_delete(self, client):
        client.transaction([ITEM], insert(1, "one", "x"), insert(2, "two", "y"))
        client.transaction([ITEM], update(1, "uno", "x"))
        assert client.rows("item") == [(b"1", b"uno", b"x"), (b"2", b"two", b"y")]
        answer = client.transaction([ITEM], delete(key=[1, ABSENT, ABSENT]))
        assert answer.counts == t.Counts(deleted=1)
        assert client.rows("item") == [(b"2", b"two", b"y")]

    def test_the_last_state_of_a_key_wins(self, client):
        one = [insert(1, "a", "x"), delete(key=[1, ABSENT, ABSENT]), insert(1, "b", "x")]
        answer = client.transaction([ITEM], *one, update(1, "c", "x"))
        assert client.rows("item") == [(b"1", b"c", b"x")]
        assert answer.counts == t.Counts(inserted=2, updated=1, deleted=1)

    def test_an_insert_over_a_row_takes_its_place(self, client):
        client.transaction([ITEM], insert(1, "a", "x"))
        client.transaction([ITEM], insert(1, None, "y"))
        assert client.rows("item") == [(b"1", None, b"y")]

    def test_unchanged_toast_is_kept(self, client):
        client.transaction([ITEM], insert(1, "a", "long"), insert(2, "a", None))
        client.transaction([ITEM], update(1, "b", KEPT), update(2, "b", KEPT))
        assert client.rows("item") == [(b"1", b"b", b"long"), (b"2", b"b", None)]

    def test_an_update_of_an_unknown_row(self, client):
        answer = client.transaction([ITEM], update(1, "a", "x"), update(2, "b", KEPT))
        assert client.rows("item") == [(b"1", b"a", b"x"), (b"2", b"b", None)]
        assert answer.counts == t.Counts(inserted=2)

    def test_deletes_and_truncates_of_the_unknown(self, client):
        answer = client.transaction([ITEM, PAIR], delete(key=[1, ABSENT, ABSENT]), truncate(1))
        assert answer.counts == t.Counts(deleted=0, truncated=1)
        assert client.rows("item") == [] and client.rows("pair") == []

    def test_truncate_of_many(self, client):
        client.transaction([ITEM, PAIR, FULL], insert(1, 2, 3), insert(1, 2, 3, of=1))
        client.transaction([ITEM, PAIR, FULL], insert(1, 2, of=2), insert(2, 2, 3))
        answer = client.transaction([ITEM, PAIR, FULL], truncate(0, 1), insert(3, 3, 3))
        assert answer.counts == t.Counts(truncated=2, inserted=1)
        assert client.rows("item") == [(b"3", b"3", b"3")]
        assert client.rows("pair") == [] and len(client.rows("full")) == 1

    def test_a_key_of_two_columns(self, client):
        client.transaction([PAIR], insert(1, 2, "x"), insert(2, 1, "y"), insert(1, 1, "z"))
        client.transaction([PAIR], update(2, 1, "Y"), delete(key=[1, 1, ABSENT]))
        assert client.rows("pair") == [(b"1", b"2", b"Y"), (b"2", b"1", b"x")]

    def test_identity_by_another_index_than_the_primary_key(self, client):
        user = relation("user", "id", "mail", "name", identity="INDEX", key=["mail"], pk=["id"])
        client.transaction([user], insert(1, "a@", "A"), insert(2, "b@", "B"))
        client.transaction([user], update(9, "a@", "A"))
        client.transaction([user], delete(key=[ABSENT, "b@", ABSENT]))
        client.transaction([user], update(9, "c@", "C", key=[ABSENT, "a@", ABSENT]))
        assert client.rows("user") == [(b"9", b"c@", b"C")]

    def test_identity_nothing_uses_the_primary_key(self, client):
        only = relation("only", "id", "v", identity="NOTHING")
        client.transaction([only], insert(1, "a"), insert(1, "b"), insert(2, "c"))
        assert client.rows("only") == [(b"1", b"b"), (b"2", b"c")]

    def test_columns_that_are_not_published_stay_unknown(self, client):
        client.transaction([ITEM], insert(1, ABSENT, "x"), insert(2, "b", "y"))
        client.transaction([ITEM], update(2, ABSENT, "z"))
        assert client.rows("item") == [(b"1", None, b"x"), (b"2", b"b", b"z")]


class TestKeyChange:
    """S-404: u comes from the old key's row, else from the new key's, else is unknown."""

    def test_the_row_moves_with_what_it_kept(self, client):
        client.transaction([ITEM], insert(1, "a", "long"))
        answer = client.transaction([ITEM], update(2, "b", KEPT, key=[1, ABSENT, ABSENT]))
        assert client.rows("item") == [(b"2", b"b", b"long")]
        assert answer.counts == t.Counts(updated=1)

    def test_over_the_row_at_the_new_key(self, client):
        client.transaction([ITEM], insert(1, "a", "old"), insert(2, "b", "new"))
        client.transaction([ITEM], update(2, "c", KEPT, key=[1, ABSENT, ABSENT]))
        assert client.rows("item") == [(b"2", b"c", b"old")]

    def test_from_an_unknown_row(self, client):
        client.transaction([ITEM], insert(2, "b", "new"))
        client.transaction([ITEM], update(2, "c", KEPT, key=[1, ABSENT, ABSENT]))
        client.transaction([ITEM], update(4, "d", KEPT, key=[3, ABSENT, ABSENT]))
        assert client.rows("item") == [(b"2", b"c", b"new"), (b"4", b"d", None)]

    def test_an_old_key_that_did_not_change(self, client):
        client.transaction([ITEM], insert(1, "a", "long"))
        client.transaction([ITEM], update(1, "b", KEPT, key=[1, ABSENT, ABSENT]))
        assert client.rows("item") == [(b"1", b"b", b"long")]

    def test_a_key_that_is_unchanged_toast(self, client):
        key = "k" * 5000
        client.transaction([ITEM], insert(key, "a", "x"))
        client.transaction([ITEM], update(KEPT, "b", KEPT, key=[key, ABSENT, ABSENT]))
        assert client.rows("item") == [(key.encode(), b"b", b"x")]
        client.transaction([ITEM], update(KEPT, "c", KEPT, key=["unknown", ABSENT, ABSENT]))
        assert (b"unknown", b"c", None) in client.rows("item")

    def test_two_rows_change_places(self, client):
        client.transaction([ITEM], insert(1, "a", "x"), insert(2, "b", "y"))
        moves = ((1, 3, "a"), (2, 1, "b"), (3, 2, "a"))
        client.transaction(
            [ITEM], *(update(new, v, KEPT, key=[old, ABSENT, ABSENT]) for old, new, v in moves)
        )
        assert client.rows("item") == [(b"1", b"b", b"y"), (b"2", b"a", b"x")]


class TestIdentityFull:
    def test_with_a_primary_key(self, client):
        client.transaction([FULL], insert(1, "a"), insert(2, "b"), insert(3, "c"))
        client.transaction([FULL], update(1, "A", full=[1, "a"]), delete(full=[2, "b"]))
        client.transaction([FULL], update(4, "c", full=[3, "c"]))
        assert client.rows("full") == [(b"1", b"A"), (b"4", b"c")]

    def test_the_primary_key_decides_and_not_the_rest(self, client):
        client.transaction([FULL], insert(1, "a"))
        client.transaction([FULL], update(1, "c", full=[1, "unknown here"]))
        assert client.rows("full") == [(b"1", b"c")]
        client.transaction([FULL], delete(full=[1, None]))
        assert client.rows("full") == []


class TestWithoutKey:
    def test_equal_rows_stay_apart(self, client):
        client.transaction([BARE], *[insert(1, None)] * 3)
        assert client.rows("bare") == [(b"1", None)] * 3

    def test_a_delete_takes_exactly_one(self, client):
        client.transaction([BARE], *[insert(1, None)] * 3, insert(1, ""))
        answer = client.transaction([BARE], delete(full=[1, None]), delete(full=[2, None]))
        assert answer.counts == t.Counts(deleted=1)
        assert client.rows("bare") == [(b"1", None)] * 2 + [(b"1", b"")]

    def test_an_update_touches_exactly_one(self, client):
        client.transaction([BARE], *[insert(1, 2)] * 3)
        client.transaction([BARE], update(5, 6, full=[1, 2]))
        assert client.rows("bare") == [(b"1", b"2")] * 2 + [(b"5", b"6")]

    def test_an_update_of_an_unknown_row_is_stored(self, client):
        client.transaction([BARE], update(5, 6, full=[1, 2]))
        assert client.rows("bare") == [(b"5", b"6")]

    def test_what_the_old_row_lacks_is_no_condition(self, client):
        client.transaction([BARE], insert(1, 2), insert(2, 2))
        client.transaction([BARE], delete(full=[ABSENT, 2]))
        assert len(client.rows("bare")) == 1

    def test_a_change_without_an_old_row_is_refused(self, client):
        client.transaction([BARE], insert(1, 2))
        for change in (update(1, 3), delete(), delete(full=[ABSENT, ABSENT])):
            with refused(code="INVALID_ARGUMENT"):
                client.transaction([BARE], change)

    def test_1600_columns(self, client):
        names = [f"c{i:04}" for i in range(1600)]
        wide = relation("wide", *names, identity="FULL", key=0)
        first, second = list(range(1600)), [None] * 1599 + ["x"]
        client.transaction([wide], insert(*first), insert(*second), insert(*second))
        client.transaction([wide], update(*second, full=first), delete(full=second))
        assert len(client.rows("wide")) == 2


class TestValues:
    VALUES = (
        b"",
        b"NULL",
        b"\\N",
        b"1.10",
        b"007",
        b"1e400",
        b"NaN",
        b"-infinity",
        b"0044-03-15 BC",
        b" padded ",
        b"line\nbreak\r\t",
        "žluťoučký 🐎 e\u0301 \ufeff".encode(),
        b"\\xdeadbeef",
        b"\xff\xfe not utf-8",
        b"\xed\xa0\x80",
        b"9" * 1000,
        b"'); DROP TABLE item; --",
    )

    def test_bytes_in_bytes_out(self, client):
        client.transaction([ITEM], *(insert(i, v, None) for i, v in enumerate(self.VALUES, 100)))
        assert [one[1] for one in client.rows("item")] == list(self.VALUES)

    def test_keys_compare_as_bytes(self, client):
        keys = [*self.VALUES, b"a", b"A", b"a ", b"7", b"07", b"1.1", b"1.100"]
        client.transaction([ITEM], *(insert(key, "x", None) for key in keys))
        assert len(client.rows("item")) == len(keys)
        client.transaction([ITEM], *(update(key, "y", None) for key in keys))
        assert {one[1] for one in client.rows("item")} == {b"y"}
        client.transaction([ITEM], *(delete(key=[key, ABSENT, ABSENT]) for key in keys))
        assert client.rows("item") == []

    def test_null_is_not_the_empty_text(self, client):
        client.transaction([ITEM], insert(1, None, ""))
        assert client.rows("item") == [(b"1", None, b"")]


class TestNames:
    NAMES = (
        ("Name", "name", "NAME", "nAME", "^name", "^^name"),
        ("rowid", "_rowid_", "oid", "ROWID", "_ROWID_", "^_rowid_"),
        ('with "quotes"', "it's", "a b", "a.b", "[x]", "`y`", "select", "table"),
        ("äÄ", "ÄÄ", "žluť", "emoji🐎", "?", ":a", "@b", "$1", ";--"),
    )

    @pytest.mark.parametrize("names", NAMES)
    def test_columns(self, client, names):
        table = relation("t", *names)
        client.transaction([table], insert(*names))
        changed = [names[0]] + [f"{name}!" for name in names[1:]]
        client.transaction([table], update(*changed))
        with read.opened(client.path) as db:
            columns = read.tables(db)["public", "t"]
            assert [column[0] for column in columns] == sorted(names, key=str.encode)
            assert read.key(columns) == [names[0]]
        told = dict(zip(sorted(names, key=str.encode), client.rows("t")[0]))
        assert told == {name: value.encode() for name, value in zip(names, changed)}

    def test_a_column_with_the_name_of_the_row_number(self, client):
        table = relation("t", "_rowid_", "rowid", "oid", identity="FULL", key=0)
        client.transaction([table], *[insert(1, 2, None)] * 3)
        client.transaction([table], delete(full=[1, 2, None]), update(5, 6, 7, full=[1, 2, None]))
        assert client.rows("t") == [(b"1", None, b"2"), (b"5", b"7", b"6")]

    @pytest.mark.parametrize("name", itertools.chain(*NAMES, ["sqlite_x", "SQLite_x"]))
    def test_the_escape_can_be_undone(self, name):
        back = re.sub(r"\^(.)", lambda found: found[1].upper(), safe(name))
        assert back == name

    def test_tables_and_schemas(self, client):
        names = [
            *itertools.chain(*self.NAMES),
            "sqlite_master",
            "SQLITE_x",
            "a.b",
            "_replicant_streams",
        ]
        homes = [("public", name) for name in names] + [(name, "t") for name in names]
        homes += [("a", "b.c"), ("a.b", "c"), ("a^", ".c"), ("A", "b"), ("a", "B"), ("a", "b")]
        homes += [("public", "item.key"), ("public", "item")]
        homes = list(dict.fromkeys(homes))
        relations = [relation(table, "id", schema=schema) for schema, table in homes]
        client.transaction(relations, *(insert(i, of=i) for i in range(len(homes))))
        for i, (schema, table) in enumerate(homes):
            assert client.rows(table, schema) == [(b"%d" % i,)], (schema, table)


class TestShapes:
    def test_columns_are_mapped_by_name(self, client):
        client.transaction([ITEM], insert(1, "one", "x"))
        turned = relation("item", "text", "id", "name", key=["id"])
        client.transaction([turned], insert("y", 2, "two"), update(KEPT, 1, "uno"))
        assert client.rows("item") == [(b"1", b"uno", b"x"), (b"2", b"two", b"y")]

    def test_new_columns_are_added(self, client):
        client.transaction([ITEM], insert(1, "one", "x"))
        grown = relation("item", "id", "name", "new", "text", "Name")
        client.transaction([grown], insert(2, "two", 0, "y", "N"), update(1, "uno", None, "x", "M"))
        # Columns in the order of their names: Name, id, name, new, text.
        assert client.rows("item") == [
            (b"M", b"1", b"uno", None, b"x"),
            (b"N", b"2", b"two", b"0", b"y"),
        ]

    def test_both_shapes_in_one_request(self, client):
        grown = relation("item", "id", "name", "text", "new")
        client.transaction([ITEM, grown], insert(1, "a", "x"), insert(2, "b", "y", "z", of=1))
        assert len(client.rows("item")) == 2

    def test_a_lost_or_retyped_column_is_refused(self, client):
        client.transaction([ITEM], insert(1, "one", "x"))
        retyped = relation("item", "id", "name", "text")
        retyped.columns[1].type_oid = 23
        for shape in (
            relation("item", "id", "name"),
            relation("item", "id", "label", "text"),
            retyped,
        ):
            with refused("SCHEMA_DECLINED"):
                client.transaction([shape], insert(*["v"] * len(shape.columns)))
        assert client.rows("item") == [(b"1", b"one", b"x")]
        client.transaction([ITEM], insert(2, "two", "y"))

    def test_a_table_without_columns_is_refused(self, client):
        with refused("SCHEMA_DECLINED"):
            client.transaction([relation("none")], insert())

    def test_another_key(self, client):
        client.transaction([ITEM], insert(1, "a", "x"), insert(2, "b", "y"))
        named = relation("item", "id", "name", "text", key=["name"])
        client.transaction([named], update(9, "a", "x"), insert(9, "c", "z"))
        assert [one[:2] for one in client.rows("item")] == [
            (b"9", b"a"),
            (b"2", b"b"),
            (b"9", b"c"),
        ]

    def test_a_key_that_goes_and_comes_back(self, client):
        client.transaction([FULL], insert(1, "a"))
        bare = relation("full", "id", "v", identity="FULL", key=0)
        client.transaction([bare], insert(1, "a"), insert(1, "a"), delete(full=[1, "a"]))
        assert client.rows("full") == [(b"1", b"a")] * 2
        client.transaction([bare], delete(full=[1, "a"]))
        client.transaction([FULL], insert(1, "b"))
        assert client.rows("full") == [(b"1", b"b")]

    def test_a_restart_knows_the_shapes(self, client, example, served, tmp_path):
        client.transaction([ITEM], insert(1, "a", "x"))
        server, sink = example.serve(f"unix:{tmp_path}/two.sock", served[1])
        try:
            two = type(client)(f"unix:{tmp_path}/two.sock", served[1])
            two.claim(2)
            grown = relation("item", "id", "name", "text", "new")
            two.end = client.end
            two.transaction([grown], update(1, "b", "x", 5), insert(2, "c", "y", 6))
            client.claim(3)
            client.end = two.end
            client.transaction([grown], update(1, "d", KEPT, 5))
            assert client.rows("item") == [(b"1", b"d", b"5", b"x"), (b"2", b"c", b"6", b"y")]
            two.channel.close()
        finally:
            server.stop(None).wait()
            sink.store.db.close()

    def test_a_table_that_somebody_dropped(self, client):
        """An operator's way to begin a table anew, while the sink runs."""
        client.transaction([ITEM], insert(1, "a", "x"))
        with contextlib.closing(sqlite3.connect(client.path)) as other:
            other.executescript("""DROP TABLE "public.item"; DELETE FROM _replicant_columns""")
        client.transaction([ITEM], insert(2, "b", "y"))
        assert client.rows("item") == [(b"2", b"b", b"y")]


class TestBroken:
    CHANGES = (
        insert("1"),
        insert("1", "2", "3", "4"),
        t.Change(op=t.CHANGE_OP_INSERT),
        t.Change(op=t.CHANGE_OP_UPDATE),
        t.Change(op=t.CHANGE_OP_DELETE, new_row=row([1, 2, 3])),
        t.Change(op=t.CHANGE_OP_UNSPECIFIED, new_row=row([1, 2, 3])),
        t.Change(op=77, new_row=row([1, 2, 3])),
        t.Change(op=t.CHANGE_OP_MESSAGE),
        t.Change(op=t.CHANGE_OP_INSERT, new_row=t.Row(kinds="ttb", values=[b"1", b"2", b"3"])),
        t.Change(op=t.CHANGE_OP_INSERT, new_row=t.Row(kinds="ttl", values=[b"1", b"2", b"3"])),
        t.Change(op=t.CHANGE_OP_INSERT, new_row=t.Row(kinds="ttt", values=[b"1", b"2"])),
        insert(1, 2, 3, of=1),
        insert(ABSENT, 2, 3),
        update(KEPT, 2, 3),
        update(2, 2, 3, key=[ABSENT, 2, 3]),
        delete(key=[ABSENT, 2, 3]),
        truncate(0, 1),
    )

    @pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
    def test_it_is_refused_and_leaves_nothing(self, client, change):
        with refused(code="INVALID_ARGUMENT"):
            client.transaction([ITEM], insert(5, 5, 5), change)
        assert client.rows("item") is None and client.position() is None
