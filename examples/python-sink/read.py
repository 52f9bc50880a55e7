"""Prints what a mirror holds, as JSON lines, in one consistent view.

    read.py DB                every stream, table and row; values as base64 of their bytes
    read.py DB schema.table   the rows of one table for reading, as {"column": "value"}

It needs nothing but Python, neither the stubs nor a running sink, and writes nothing.
Lines of the first form: {"stream", "position", "epoch"}; {"schema", "table", "columns",
"key", "rows"}, followed by that many {"row": [...]}, null where the value is NULL. Columns
are sorted by name; rows by their key, or as a whole where a table has none, as bytes.
"""

import base64
import contextlib
import json
import sqlite3
import sys
from pathlib import Path


def quote(name):
    return '"' + name.replace('"', '""') + '"'


@contextlib.contextmanager
def opened(path):
    """The file, read only, as it was committed at this moment."""
    uri = Path(path).resolve().as_uri() + "?mode=ro"
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=20)) as db:
        db.text_factory = bytes  # TEXT and BLOB alike: the bytes that were stored
        db.execute("BEGIN")
        yield db


def streams(db):
    """(stream id, position or None, epoch) of each stream."""
    rows = db.execute("SELECT stream_id, position, epoch FROM _replicant_streams ORDER BY 1")
    for stream_id, position, epoch in rows:
        yield stream_id.decode(), None if position is None else int(position), int(epoch)


def tables(db):
    """{(schema, table): [(column, column in SQLite, key position or None)]}, sorted."""
    found = {}
    entries = db.execute(
        'SELECT pg_schema, pg_table, pg_column, "column", key_position FROM _replicant_columns'
        " ORDER BY 1, 2, 3"
    )
    for schema, table, column, stored_as, place in entries:
        home = found.setdefault((schema.decode(), table.decode()), [])
        home.append((column.decode(), stored_as.decode(), place))
    return found


def key(columns):
    """The names of the key's columns, in the order of the key."""
    return [name for place, name in sorted((c[2], c[0]) for c in columns if c[2])]


def rows(db, schema, table, columns):
    """The rows, sorted: a list of bytes or None, in the order of columns."""
    query = 'SELECT "table" FROM _replicant_columns WHERE pg_schema = ? AND pg_table = ?'
    stored_as = db.execute(query, (schema, table)).fetchone()[0].decode()
    names = ", ".join(quote(column[1]) for column in columns)
    order = [i for name in key(columns) for i, c in enumerate(columns) if c[0] == name]
    found = [list(row) for row in db.execute(f"SELECT {names} FROM {quote(stored_as)}")]
    found.sort(
        key=lambda row: [(row[i] is not None, row[i] or b"") for i in order or range(len(row))]
    )
    return found


def dump(db):
    for stream_id, position, epoch in streams(db):
        lsn = None if position is None else f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"
        yield {"stream": stream_id, "position": lsn, "epoch": str(epoch)}
    for (schema, table), columns in tables(db).items():
        found = rows(db, schema, table, columns)
        names = [column[0] for column in columns]
        head = {"schema": schema, "table": table, "columns": names, "key": key(columns)}
        yield {**head, "rows": len(found)}
        for row in found:
            yield {"row": [None if v is None else base64.b64encode(v).decode() for v in row]}


def pretty(db, name):
    for (schema, table), columns in tables(db).items():
        if f"{schema}.{table}" == name:
            for row in rows(db, schema, table, columns):
                values = (None if v is None else v.decode("utf-8", "backslashreplace") for v in row)
                yield dict(zip((column[0] for column in columns), values))


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    with opened(sys.argv[1]) as db:
        for line in pretty(db, sys.argv[2]) if sys.argv[2:] else dump(db):
            print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    main()
