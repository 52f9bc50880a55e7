"""The Python sink with one defect, which REPLICANT_DEFECT names. The suite must find it.

two-commits       the position in a store transaction of its own, after the rows
no-replay-skip    what ends at or below the position is applied again
batch-granular    a batch is skipped or applied as a whole, by its last transaction
no-fence          any epoch may write
toast-as-null     an unchanged column is stored as NULL
redo-wipes-all    first_for_table removes rows of the stream too
"""

import importlib
import importlib.util
import os
import sys
from pathlib import Path

clean = Path(__file__).resolve().parents[3] / "examples" / "python-sink"
sys.path[:0] = [str(clean / "gen"), str(clean)]
checkpoint, mirror = importlib.import_module("checkpoint"), importlib.import_module("mirror")

# sink.py is a program, and its stubs are a package of the same name.
spec = importlib.util.spec_from_file_location("sqlite_sink", clean / "sink.py")
sink = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sink)


def two_commits():
    whole = checkpoint.Store.commit

    def commit(self, call, request, end, position):
        self.db.execute("COMMIT")
        self.db.execute("BEGIN IMMEDIATE")
        whole(self, call, request, end, position)

    checkpoint.Store.commit = commit


def no_replay_skip():
    def handle(self, request, transactions):
        counts, end = sink.types_pb2.Counts(), request.checkpoint_lsn
        with self.store.transaction():
            position = self.store.admit(request)
            run = self.snapshots.run(request.context)
            for transaction in transactions:
                self.mirror.apply(request.relations, transaction.changes, counts, run)
            self.store.commit(request.context, request, end, position)
        return {"checkpoint_lsn": request.checkpoint_lsn}

    sink.SqliteSink.handle = handle


def batch_granular():
    careful = sink.SqliteSink.handle

    def handle(self, request, transactions):
        last = transactions[-1].end_lsn if transactions else 0
        row = checkpoint.stream(self.store.db, request.context.stream_id)
        if not row or last <= int(row["position"] or 0):
            return careful(self, request, transactions)
        with self.store.transaction():
            position = self.store.admit(request)
            run = self.snapshots.run(request.context)
            for transaction in transactions:
                counts = sink.types_pb2.Counts()
                self.mirror.apply(request.relations, transaction.changes, counts, run)
            self.store.commit(request.context, request, last, position)
        return {"checkpoint_lsn": request.checkpoint_lsn}

    sink.SqliteSink.handle = handle


def no_fence():
    careful = checkpoint.Store.admit

    def admit(self, request):
        row = checkpoint.stream(self.db, request.context.stream_id)
        if row and request.context.epoch < int(row["epoch"]):
            request.context.epoch = int(row["epoch"])
        return careful(self, request)

    checkpoint.Store.admit = admit


def toast_as_null():
    exact = mirror.Table.read

    def read(self, row):
        kinds, values = exact(self, row)
        return kinds.replace("u", "t"), values

    mirror.Table.read = read


def redo_wipes_all():
    careful = mirror.Mirror.copy

    def copy(self, unit):
        if unit.first_for_table:
            unit.reset = mirror.types.SNAPSHOT_RESET_ALL
        return careful(self, unit)

    mirror.Mirror.copy = copy


if __name__ == "__main__":
    defects = [
        two_commits,
        no_replay_skip,
        batch_granular,
        no_fence,
        toast_as_null,
        redo_wipes_all,
    ]
    {f.__name__.replace("_", "-"): f for f in defects}[os.environ["REPLICANT_DEFECT"]]()
    sink.main()
