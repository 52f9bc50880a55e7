"""The reader prints what is stored, and the texts quote the code as it is."""

import base64
import json
import subprocess
import sys
from pathlib import Path

from client import insert, relation

HOME = Path(__file__).parents[1]


def run(*arguments):
    command = [sys.executable, str(HOME / "read.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8")


def lines(*arguments):
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def encoded(*values):
    return {"row": [None if v is None else base64.b64encode(v).decode() for v in values]}


def test_everything_as_bytes(client):
    pair = relation("Pair", "b", "a", "v", key=["b", "a"])
    log = relation("log", "line", key=0, schema="other")
    client.transaction(
        [pair, log],
        *(insert(*one) for one in ((2, 1, b"\xff"), (1, 2, None), (1, 10, ""))),
        *(insert(line, of=1) for line in ("b", None, "a", "a")),
    )
    assert lines(client.path) == [
        {"stream": "orders", "position": "0/3F2", "epoch": "1"},
        {"schema": "other", "table": "log", "columns": ["line"], "key": [], "rows": 4},
        encoded(None),
        encoded(b"a"),
        encoded(b"a"),
        encoded(b"b"),
        {
            "schema": "public",
            "table": "Pair",
            "columns": ["a", "b", "v"],
            "key": ["b", "a"],
            "rows": 3,
        },
        encoded(b"10", b"1", b""),
        encoded(b"2", b"1", None),
        encoded(b"1", b"2", b"\xff"),
    ]


def test_one_table_for_people(client):
    client.transaction([relation("item", "id", "Name")], insert(1, "žluť"), insert(2, None))
    assert lines(client.path, "public.item") == [
        {"Name": "žluť", "id": "1"},
        {"Name": None, "id": "2"},
    ]
    assert "žluť" in run(client.path, "public.item").stdout


def test_it_makes_no_file(tmp_path):
    assert run(tmp_path / "missing.db").returncode != 0
    assert list(tmp_path.iterdir()) == []
    assert run().returncode != 0
