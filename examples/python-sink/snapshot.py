"""What is kept of snapshots: one row per stream, written in the transaction of their rows.

The generation is a number that rises with each snapshot. Every row has that of the snapshot
that wrote it, or of the latest one when a change wrote it, so that rows which neither has
touched since a snapshot began are known as gone. The token says how far a snapshot has got;
it is the sidecar's, and comes back to it bit by bit.
"""

import contextlib

from checkpoint import bound
from errors import broken

SNAPSHOTS = """CREATE TABLE IF NOT EXISTS _replicant_snapshots (
    stream_id TEXT PRIMARY KEY, generation INTEGER NOT NULL, token BLOB)"""
KEEP = """INSERT INTO _replicant_snapshots VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET
    generation = max(generation, excluded.generation), token = coalesce(excluded.token, token)"""


class Snapshots:
    def __init__(self, store):
        self.store, self.db = store, store.db
        self.db.execute(SNAPSHOTS)

    def run(self, call):
        """The generation for rows that the stream writes now; 0 if there was no snapshot."""
        query = "SELECT generation FROM _replicant_snapshots WHERE stream_id = ?"
        row = self.db.execute(query, (call.stream_id,)).fetchone()
        return row["generation"] if row else 0

    def keep(self, call, unit):
        """A unit without a token leaves the stored one alone."""
        if not unit.generation:
            raise broken("a unit without its generation")
        token = unit.progress_token if unit.HasField("progress_token") else None
        self.db.execute(KEEP, (call.stream_id, unit.generation, token))

    def token(self, request):
        """What was stored last; None if never. What cannot be read is an error, not None."""
        query = "SELECT token FROM _replicant_snapshots WHERE stream_id = ?"
        with contextlib.closing(self.store.connect()) as db:
            bound(db, request)
            row = db.execute(query, (request.stream_id,)).fetchone()
        return row["token"] if row else None
