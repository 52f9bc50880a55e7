"""Messages of pg_logical_emit_message: one row each, stored with the position as rows are.

One that was written outside of a transaction is a unit of its own, and its LSN is its
position. Those inside of a transaction stand among the changes of it, each at its ordinal.
"""

from errors import broken
from sink.v1 import types_pb2 as types

# The bytes as they were sent; an LSN uses all 64 bits and is text.
MESSAGES = """CREATE TABLE IF NOT EXISTS _replicant_messages (
    stream_id TEXT, commit_lsn TEXT, ordinal INTEGER, prefix BLOB, content BLOB)"""


class Messages:
    """Writes inside the SQLite transaction that its caller holds open."""

    def __init__(self, store):
        self.db = store.db
        self.db.execute(MESSAGES)

    def keep(self, call, commit_lsn, ordinal, message):
        entry = (call.stream_id, str(commit_lsn), ordinal, message.prefix, message.content)
        self.db.execute("INSERT INTO _replicant_messages VALUES (?, ?, ?, ?, ?)", entry)

    def among(self, call, part, commit_lsn=None, first=0):
        """Those among the changes of a transaction, or of a part that begins at this place."""
        for ordinal, change in enumerate(part.changes, first):
            if change.op == types.CHANGE_OP_MESSAGE:
                if not change.HasField("message"):
                    raise broken("a message of nothing")
                self.keep(call, commit_lsn or part.commit_lsn, ordinal, change.message)
