"""Makes the stubs where they are missing or old, and serves a sink for each test."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
subprocess.run([str(HOME / "generate.sh"), sys.executable], check=True)
sys.path[:0] = [str(HOME / "gen"), str(HOME)]


def load(name):
    """A module of the example by its file: "import sink" would mean the stubs."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", HOME / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def example():
    return load("sink")


@pytest.fixture
def served(example, tmp_path):
    """A real server on a unix socket with an empty file: listen, path, the sink object."""
    listen, path = f"unix:{tmp_path}/sink.sock", str(tmp_path / "mirror.db")
    server, sink = example.serve(listen, path)
    yield listen, path, sink
    server.stop(grace=None).wait()
    with sink.store.lock:  # a handler whose call was cut off may still be in SQLite
        sink.store.db.close()


@pytest.fixture
def connect(served):
    """Makes clients, each a sidecar of its own."""
    from client import Client

    listen, path, _ = served
    clients = []

    def connect(**who):
        clients.append(Client(listen, path, **who))
        return clients[-1]

    yield connect
    for one in clients:
        one.channel.close()


@pytest.fixture
def client(connect):
    """A sidecar that has claimed its stream."""
    one = connect()
    one.claim(1)
    return one
