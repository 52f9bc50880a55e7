"""The sink as a process: killed, stopped, and beside another writer. Rows and position agree."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import pytest
from client import ABSENT, Client, delete, insert, refused, relation, start, transaction, update

KEYED = relation("keyed", "id", "n")
LOG = relation("log", "n", key=0)
STEP = 10  # transaction n ends at n * STEP


def unit(n):
    """Transaction n: one row more in both tables, and the row of n - 1 changes its key."""
    changes = [insert(n, of=1), insert(f"new {n}", n)]
    if n > 1:
        changes.append(update(f"old {n - 1}", n - 1, key=[f"new {n - 1}", ABSENT]))
    return transaction(n * STEP, *changes)


def expected(n):
    log = sorted((b"%d" % i,) for i in range(1, n + 1))
    keyed = [(b"old %d" % i, b"%d" % i) for i in range(1, n)] + [(b"new %d" % n, b"%d" % n)] * (
        n > 0
    )
    return log, sorted(keyed)


@contextlib.contextmanager
def process(listen, path):
    one = start(listen, path)
    try:
        yield one
    finally:
        one.kill()
        one.wait()


def test_kill_at_any_moment(tmp_path):
    """Units in random groups, the large call among them, until the process is killed."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    listen, path = f"unix:{tmp_path}/sink.sock", str(tmp_path / "mirror.db")
    known = 0
    for epoch in range(1, 9):
        with process(listen, path) as sink:
            client = Client(listen, path).ready()
            answer = client.claim(epoch)
            n = answer.position // STEP
            assert n >= known, "what was acknowledged is gone"
            log, keyed = expected(n)
            assert (client.rows("log") or [], client.rows("keyed") or []) == (log, keyed)
            killer = threading.Timer(chance.uniform(0.05, 0.6), sink.kill)
            killer.start()
            known = deliver(client, n, chance)
            killer.join()
            client.channel.close()
    assert known > 0


def deliver(client, n, chance):
    """Sends what comes after n until the sink is gone; the last that was acknowledged."""
    with contextlib.suppress(grpc.RpcError):
        while True:
            low = max(0, n - chance.choice((0, 0, 1, 3)))
            high = n + chance.randrange(1, 5)
            if chance.random() < 0.3:
                one = unit(n + 1)
                client.large(*client.frames(one.end_lsn, [KEYED, LOG], *one.changes))
                n += 1
            else:
                units = [unit(i) for i in range(low + 1, high + 1)]
                client.batch([KEYED, LOG], *units, expected_checkpoint=n * STEP or None)
                n = high
    return n


def test_sigterm_ends_the_call_in_flight_and_exits_0(tmp_path):
    listen, path = f"unix:{tmp_path}/sink.sock", str(tmp_path / "mirror.db")
    with process(listen, path) as sink:
        client = Client(listen, path).ready()
        client.claim(1)
        more, sent = threading.Event(), []

        def frames():
            *first, commit = client.frames(2000, [LOG], insert("a"))
            yield from first
            sent.append(True)
            more.wait(timeout=20)
            yield commit

        call = client.stub.HandleLargeTransaction.future(frames())
        while not sent:
            time.sleep(0.01)
        time.sleep(0.2)
        sink.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        more.set()
        assert call.result(timeout=20).checkpoint_lsn == 2000
        assert sink.wait(timeout=20) == 0
    assert client.rows("log") == [(b"a",)]
    client.channel.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no unix sockets there")
def test_the_files_are_for_this_user_alone(tmp_path):
    listen, path = f"unix:{tmp_path}/sink.sock", str(tmp_path / "mirror.db")
    with process(listen, path):
        Client(listen, path).ready().channel.close()
        for made in ("sink.sock", "mirror.db", "mirror.db-wal"):
            assert (tmp_path / made).stat().st_mode & 0o077 == 0, made


def test_it_listens_on_tcp_too(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    path = str(tmp_path / "mirror.db")
    with process(listen, path):
        client = Client(listen, path).ready()
        assert client.claim(1).epoch == 1
        client.channel.close()


def test_an_address_in_use_is_an_error(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with process(address, str(tmp_path / "one.db")):
        Client(address, str(tmp_path / "one.db")).ready().channel.close()
        with process(address, str(tmp_path / "two.db")) as second:
            assert second.wait(timeout=20) != 0


def test_two_sidecars_write_at_once(connect):
    """Of two writers with two epochs only the later one gets through, whatever the moment."""
    one, two = connect(), connect(sender=b"t" * 16)
    one.claim(1)
    refusals, go = [], threading.Event()

    def old():
        go.wait()
        for n in range(1, 400):
            try:
                one.batch([LOG], transaction(n, insert(f"old {n}")))
            except grpc.RpcError as error:
                refusals.append(dict(error.trailing_metadata())["sink-reason"])

    thread = threading.Thread(target=old)
    thread.start()
    go.set()
    time.sleep(0.05)
    position = two.claim(2).position
    for n in range(position + 1, position + 200):
        two.batch([LOG], transaction(n, insert(f"new {n}")), expected_checkpoint=n - 1)
    thread.join()
    rows = two.rows("log")
    assert len(rows) == position + 199 == two.position()
    assert set(refusals) == {"FENCED"} and len(refusals) == 399 - position


def test_two_streams_write_at_once(connect):
    clients = [connect(stream=f"s{i}") for i in range(4)]
    faults = []

    def work(client, i):
        table = relation(f"t{i}", "n")
        try:
            client.claim(1)
            for n in range(1, 100):
                changes = [insert(n)] + ([delete(key=[n - 1])] if n % 3 else [])
                client.batch([table], transaction(n, *changes))
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(clients, range(4))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    kept = sorted((b"%d" % n,) for n in range(1, 100) if n == 99 or (n + 1) % 3 == 0)
    assert all(client.rows(f"t{i}") == kept for i, client in enumerate(clients))


def test_two_processes_on_one_file(tmp_path):
    path = str(tmp_path / "mirror.db")
    listen = [f"unix:{tmp_path}/{i}.sock" for i in range(2)]
    with process(listen[0], path), process(listen[1], path):
        one, two = (Client(address, path).ready() for address in listen)
        one.claim(1)
        one.batch([LOG], transaction(10, insert("a")))
        assert two.claim(2).position == 10
        with refused("FENCED"):
            one.batch([LOG], transaction(20, insert("old")))
        two.batch([LOG], transaction(20, insert("new")))
        assert two.rows("log") == [(b"a",), (b"new",)]
        for client in (one, two):
            client.channel.close()


INTERRUPTED = """
import os, runpy, signal, sys, threading
wake, armed = threading.Condition.notify_all, []

def interrupted(self):  # the waker holds its lock when the next signal comes
    if armed and threading.get_ident() == threading.main_thread().ident:
        armed.clear()
        os.kill(os.getpid(), signal.SIGTERM)
    wake(self)

threading.Condition.notify_all = interrupted
signal.signal(signal.SIGUSR1, lambda *_: armed.append(True))
sys.path.insert(0, os.path.dirname(sys.argv[1]))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_a_signal_during_a_signal(tmp_path):
    """A parent that dies thread by thread sends one for each; the sink must end all the same."""
    listen = f"unix:{tmp_path}/sink.sock"
    command = [sys.executable, "-c", INTERRUPTED, str(Path(__file__).parents[1] / "sink.py")]
    variables = {"REPLICANT_SINK_LISTEN": listen, "REPLICANT_SINK_DB": str(tmp_path / "mirror.db")}
    with subprocess.Popen(command, env={**os.environ, **variables}) as one:
        try:
            Client(listen, "").ready().channel.close()
            one.send_signal(signal.SIGUSR1)
            time.sleep(0.2)
            for _ in range(3):
                one.send_signal(signal.SIGTERM)
            assert one.wait(timeout=15) == 0
        finally:
            one.kill()
