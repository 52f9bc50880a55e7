"""docs/writing-a-sink.md quotes the code as it is, and its commands do what it says."""

import json
import re
import textwrap
from pathlib import Path

import pytest
from client import SOURCE, refused
from google.protobuf import json_format
from sink.v1 import sink_pb2 as pb

HOME = Path(__file__).parents[1]
GUIDE = HOME.parents[1] / "docs/writing-a-sink.md"
if not GUIDE.exists():
    pytest.skip("the example was copied without the guide", allow_module_level=True)


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text("utf-8"), re.M | re.S)


def test_quotes():
    code = [path.read_text("utf-8") for path in HOME.glob("*.py")]
    quotes = blocks("python")
    assert len(quotes) >= 12
    for quote in quotes:
        assert any(quote in text for text in code), textwrap.indent(quote, "  not in the code: ")


def test_links():
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", GUIDE.read_text("utf-8")):
        if not target.startswith("https://"):
            assert (GUIDE.parent / target).exists(), target


def test_calls_by_hand(connect):
    """The grpcurl commands, sent by this client: two refusals at the end, as it says."""
    (commands,) = (block for block in blocks("sh") if block.startswith("call() {"))
    calls = re.findall(r"^call (\w+) '(.*?)'$", commands, re.M | re.S)
    assert len(calls) == 7
    client, answers = connect(stream="try"), []

    def send(name, body):
        request = json_format.ParseDict(json.loads(body), getattr(pb, f"{name}Request")())
        return getattr(client.stub, name)(request)

    for name, body in calls[:5]:
        answers.append(send(name, body))
    read, claim, insert, idle = answers[1:]
    assert read == pb.CheckpointResponse() and claim.epoch == 1
    assert (insert.checkpoint_lsn, idle.checkpoint_lsn) == (100, 120)
    assert send(*calls[3]).counts.replayed_transactions == 1
    assert client.rows("item") == [(b"1", b"hello")]
    for name, body in calls[5:]:
        with refused("CHECKPOINT_BEHIND"):
            send(name, body)
    with refused("SOURCE_MISMATCH"):
        client.read(**SOURCE)
