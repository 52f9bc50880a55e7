"""Who may write, and how far we are: one row per stream, beside the rows that it speaks of.

Whatever your store is, this part stays as it is here: the claim, the two tests before
the first write, and the position that commits together with the rows.
"""

import contextlib
import os
import sqlite3
import threading

import grpc
from errors import Refused, broken, refused
from fence import NO_POSITION, Fence
from sink.v1 import sink_pb2, types_pb2

# LSNs and epochs use all 64 bits, which an INTEGER of SQLite has not: they are text.
STREAMS = """CREATE TABLE IF NOT EXISTS _replicant_streams (
    stream_id TEXT PRIMARY KEY, system_identifier TEXT, database TEXT, lineage BLOB,
    epoch TEXT, sender_id BLOB, position TEXT, resume_state BLOB)"""
CLAIM = """INSERT INTO _replicant_streams VALUES (?, ?, ?, ?, ?, ?, NULL, NULL)
    ON CONFLICT DO UPDATE SET epoch = excluded.epoch, sender_id = excluded.sender_id"""
ADVANCE = """UPDATE _replicant_streams
    SET position = ?, resume_state = coalesce(?, resume_state) WHERE stream_id = ?"""


class Store:
    """The SQLite file: one connection that writes, one lock around its transactions."""

    def __init__(self, path):
        self.path, self.lock, self.fence = path, threading.Lock(), Fence()
        self.db, self.version, self.generation = self.connect(), None, 0
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")  # a commit is on the disk when it returns
        self.db.execute(STREAMS)

    def connect(self):
        db = sqlite3.connect(self.path, timeout=20, isolation_level=None, check_same_thread=False)
        db.row_factory = sqlite3.Row
        return db

    @contextlib.contextmanager
    def transaction(self):
        """One writer at a time; what its block has not committed at the end never was.

        Another generation means: what you remember of the file's tables may be wrong, since
        a transaction was rolled back or another process wrote.
        """
        with self.lock:
            try:
                self.db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise  # a file that is read-only or gone does not mend itself
                locked = "the SQLite file is locked"
                raise Refused(grpc.StatusCode.UNAVAILABLE, "NOT_READY", locked) from None
            try:
                version = self.db.execute("PRAGMA data_version").fetchone()[0]
                self.generation += version != self.version
                self.version = version
                yield
            finally:
                if self.db.in_transaction:
                    self.generation += 1
                    self.db.execute("ROLLBACK")

    def read(self, request):
        """The position, for whoever asks. It waits for no writer and creates nothing."""
        with contextlib.closing(self.connect()) as db:
            return answer(bound(db, request))

    def claim(self, request):
        """Takes the stream over: by a higher epoch, or again by who has this one."""
        with self.transaction():
            row, source, claim = bound(self.db, request), request.source, request.claim
            epoch = int(row["epoch"]) if row else 0
            if claim.epoch > epoch:
                source = (source.system_identifier, source.database, os.urandom(16))
                new = (request.stream_id, *source, str(claim.epoch), claim.sender_id)
                self.db.execute(CLAIM, new)
            elif not row or (claim.epoch, claim.sender_id) != (epoch, row["sender_id"]):
                raise refused("FENCED", "another epoch rules")
            row = stream(self.db, request.stream_id)
            self.db.execute("COMMIT")
        return answer(row)

    def admit(self, request):
        """May this call write? Tested inside the transaction that writes. The position."""
        call = request.context
        if call.checkpoint_owner == types_pb2.CHECKPOINT_OWNER_SIDECAR:
            return self.fence.admit(call)
        if call.checkpoint_owner != types_pb2.CHECKPOINT_OWNER_SINK:
            raise broken("who keeps the checkpoint?")
        row = stream(self.db, call.stream_id)
        if row and call.epoch < int(row["epoch"]):
            raise refused("FENCED", "another epoch rules")
        if not row or call.epoch > int(row["epoch"]):
            raise refused("CHECKPOINT_BEHIND", "this claim is not stored here")
        position = int(row["position"] or 0)
        if request.HasField("expected_checkpoint") and (
            not position or request.expected_checkpoint > position
        ):
            raise refused("CHECKPOINT_BEHIND", "what lies between was never stored here")
        return position

    def commit(self, call, request, end, position):
        """Rows and position together: the position that we are told, and never a lower one."""
        if position == NO_POSITION:
            self.db.execute("COMMIT")
            return
        if request.checkpoint_lsn < max(end, 1):
            raise broken("checkpoint_lsn is missing, or below the transaction's end")
        if request.checkpoint_lsn > position:
            state = request.resume_state if request.HasField("resume_state") else None
            self.db.execute(ADVANCE, (str(request.checkpoint_lsn), state, call.stream_id))
        self.db.execute("COMMIT")


def stream(db, stream_id):
    query = "SELECT * FROM _replicant_streams WHERE stream_id = ?"
    return db.execute(query, (stream_id,)).fetchone()


def bound(db, request):
    """The row of a stream, which belongs to one system and one database for ever."""
    row, source = stream(db, request.stream_id), request.source
    told = (source.system_identifier, source.database)
    if row and told != (row["system_identifier"], row["database"]):
        raise refused("SOURCE_MISMATCH", "this stream belongs to another source")
    return row


def answer(row):
    """What is stored. A position that is absent stays absent: 0 would be another thing."""
    if row is None:
        return sink_pb2.CheckpointResponse()
    return sink_pb2.CheckpointResponse(
        position=None if row["position"] is None else int(row["position"]),
        epoch=int(row["epoch"]),
        lineage=row["lineage"],
        resume_state=row["resume_state"],
    )
