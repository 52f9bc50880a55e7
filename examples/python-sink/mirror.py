"""Rows of Postgres as rows of SQLite: the half that your own sink does in its own way.

A table public.orders becomes the SQLite table "public.orders". SQLite ignores the case
of ASCII letters in names, so capitals, dots and ^ are escaped: a column "Order.No" is
"^order^.^no". The table _replicant_columns has the names as they are in Postgres.

Columns have no type, so SQLite converts nothing: a value is TEXT with exactly the bytes
that Postgres printed, or a BLOB where these are not UTF-8. NULL is NULL, or a value that was
never sent: an old row's large value that no change has touched since the stream began.

Two columns of our own, which no escaped name can be: ".copied" is 1 in a row that a snapshot
wrote and no change has touched since; ".run" is the generation of the snapshot that wrote
the row, or that was the latest when a change did.
"""

import functools
import re

from errors import broken, refused
from sink.v1 import types_pb2 as types

CATALOG = """CREATE TABLE IF NOT EXISTS _replicant_columns (
    pg_schema TEXT, pg_table TEXT, pg_column TEXT, type_oid INTEGER, key_position INTEGER,
    "table" TEXT, "column" TEXT, PRIMARY KEY (pg_schema, pg_table, pg_column))"""


MARKS = '".copied" INTEGER NOT NULL, ".run" INTEGER NOT NULL'


def safe(name):
    """The name in SQLite: ^x for X, ^. for a dot, and none that SQLite reserves."""
    escaped = r"[A-Z^.]|(?<=^sqlite)_|^_(?=rowid_$)"
    return re.sub(escaped, lambda match: "^" + match[0].lower(), name)


def quote(name):
    return '"' + name.replace('"', '""') + '"'


def text(value):
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        return value


class Table:
    """One table in the shape that a request told."""

    def __init__(self, db, relation):
        self.db = db
        self.title = f"{relation.schema_name}.{relation.table_name}"
        self.stored_as = f"{safe(relation.schema_name)}.{safe(relation.table_name)}"
        self.name = quote(self.stored_as)
        self.names = [quote(safe(column.name)) for column in relation.columns]
        # The key is what an old row carries: the identity columns. Where that is the whole
        # row or nothing it is the primary key, and without one equal rows stay apart.
        whole = (types.REPLICA_IDENTITY_FULL, types.REPLICA_IDENTITY_NOTHING)
        marked = "primary_key_position" if relation.replica_identity in whole else "identity"
        self.key = [i for i, column in enumerate(relation.columns) if getattr(column, marked)]
        self.key.sort(key=lambda i: relation.columns[i].primary_key_position)
        self.insert_sql = functools.lru_cache(256)(self.insert_sql)
        self.change_sql = functools.lru_cache(256)(self.change_sql)
        self.fit(relation)

    def fit(self, relation):
        """Creates the table or adds its new columns. Any other new shape is refused."""
        home = (relation.schema_name, relation.table_name)
        query = "SELECT * FROM _replicant_columns WHERE pg_schema = ? AND pg_table = ?"
        known = {row[2]: (row[3], row[4]) for row in self.db.execute(query, home)}
        places = {i: place for place, i in enumerate(self.key, 1)}
        shape = {c.name: (c.type_oid, places.get(i)) for i, c in enumerate(relation.columns)}
        types_told = {name: oid for name, (oid, _) in shape.items()}
        if not shape or any(types_told.get(name) != oid for name, (oid, _) in known.items()):
            raise refused("SCHEMA_DECLINED", f"{self.title}: a column was lost or retyped")
        if shape == known:
            return
        if not known:
            self.db.execute(f"CREATE TABLE {self.name} ({', '.join(self.names)}, {MARKS})")
        for name, (oid, place) in shape.items():
            if known and name not in known:
                self.db.execute(f"ALTER TABLE {self.name} ADD COLUMN {quote(safe(name))}")
            entry = (*home, name, oid, place, self.stored_as, safe(name))
            self.db.execute("REPLACE INTO _replicant_columns VALUES (?, ?, ?, ?, ?, ?, ?)", entry)
        index = quote(self.stored_as + ".key")
        unique, columns = ("UNIQUE", self.key) if self.key else ("", range(min(len(shape), 8)))
        self.db.execute(f"DROP INDEX IF EXISTS {index}")
        self.db.execute(f"CREATE {unique} INDEX {index} ON {self.name} ({self.list(columns)})")

    def list(self, columns, form="{}"):
        return ", ".join(form.replace("{}", self.names[i]) for i in columns)

    def read(self, row):
        """A letter per column, t for NULL too, and a value per column, None if it has none."""
        kinds, values = row.kinds, row.values
        if not len(kinds) == len(values) == len(self.names) or kinds.strip("tnua"):
            raise broken(f"{self.title}: kinds or values do not fit the relation")
        values = [text(v) if kind == "t" else None for kind, v in zip(kinds, values)]
        return kinds.replace("n", "t"), values

    def insert(self, kinds, values, run, copied=0):
        """Stores what is carried, in the row with this key if there is one."""
        sql, use = self.insert_sql(kinds, copied)
        self.db.execute(sql, [*(values[i] for i in use), run])

    def update(self, kinds, values, old_kinds, old_values, run):
        """Sets what is carried in the row with the old key. False: there is none."""
        for i in range(len(kinds)):
            if kinds[i] == "u" and old_kinds[i] == "t":
                kinds, values[i] = kinds[:i] + "t" + kinds[i + 1 :], old_values[i]
        sql, use, found = self.change_sql(kinds, old_kinds)
        arguments = [*(values[i] for i in use), run, *(old_values[i] for i in found)]
        if self.db.execute(sql, arguments).rowcount:
            return True
        self.insert(kinds, values, run)
        return False

    def delete(self, old_kinds, old_values):
        sql, _, found = self.change_sql("", old_kinds)
        return self.db.execute(sql, [old_values[i] for i in found]).rowcount

    def copy(self, row, run):
        """A row of a snapshot takes the whole place of the row with its key."""
        kinds, values = self.read(row)
        if "u" in kinds:
            raise broken(f"{self.title}: a row of a snapshot has every column")
        self.insert(kinds, values, run, copied=1)

    def insert_sql(self, kinds, copied):
        use = [i for i, kind in enumerate(kinds) if kind == "t"]
        if not use or not set(self.key) <= set(use):
            raise broken(f"{self.title}: a row without its key")
        values = ", ".join("?" * len(use)) + f", {copied}, ?"
        sql = f'INSERT INTO {self.name} ({self.list(use)}, ".copied", ".run") VALUES ({values})'
        if self.key:
            sets = self.list(use, "{} = excluded.{}") + ', ".run" = excluded.".run"'
            if not copied:  # a copied row that replaces one of the stream is the stream's
                sets += ', ".copied" = 0'
            sql += f" ON CONFLICT ({self.list(self.key)}) DO UPDATE SET {sets}"
        return sql, use

    def change_sql(self, kinds, old_kinds):
        """An update, or a delete if there are no new letters, of at most one row."""
        use = [i for i, kind in enumerate(kinds) if kind == "t"]
        carried = [i for i, kind in enumerate(old_kinds) if kind == "t"]
        found = self.key or carried
        if not found or not set(found) <= set(carried):
            raise broken(f"{self.title}: an old row without its key")
        # OR REPLACE: a row that moves to another key takes the place of the row there.
        verb = "DELETE FROM" if not kinds else "UPDATE OR REPLACE"
        sets = [self.names[i] + " = ?" for i in use] + ['".run" = ?', '".copied" = 0']
        sets = " SET " + ", ".join(sets) if kinds else ""
        marks = ", ".join("?" * len(found))
        row = f"SELECT _rowid_ FROM {self.name} WHERE ({self.list(found)}) IS ({marks}) LIMIT 1"
        return f"{verb} {self.name}{sets} WHERE _rowid_ = ({row})", use, found


class Mirror:
    """Applies changes inside the SQLite transaction that its caller holds open."""

    def __init__(self, store):
        self.store, self.db = store, store.db
        self.tables, self.generation = {}, store.generation
        self.db.execute(CATALOG)

    def table(self, relations, index):
        if index >= len(relations):
            raise broken("relation_index is out of range")
        relation = relations[index]
        name, shape = (relation.schema_name, relation.table_name), relation.SerializeToString()
        known, table = self.tables.get(name, (None, None))
        if known != shape:
            table = Table(self.db, relation)
            self.tables[name] = shape, table
        return table

    def remember(self):
        if self.generation != self.store.generation:
            self.tables.clear()
            self.generation = self.store.generation

    def copy(self, unit):
        """A unit of a snapshot: first what it removes, then its rows, then the sweep."""
        self.remember()
        table = self.table([unit.relation], 0)
        if unit.first_for_table and unit.reset == types.SNAPSHOT_RESET_ALL:
            self.db.execute(f"DELETE FROM {table.name}")
        elif unit.first_for_table:
            self.db.execute(f'DELETE FROM {table.name} WHERE ".copied"')
        for row in unit.rows:
            table.copy(row, unit.generation)
        if unit.last_for_table and unit.sweep:
            self.db.execute(f'DELETE FROM {table.name} WHERE ".run" < ?', (unit.generation,))

    def apply(self, relations, changes, counts, run):
        self.remember()
        tables = {}
        for change in changes:
            if change.op == types.CHANGE_OP_MESSAGE:
                continue  # no row of a table: message.py keeps it
            if change.op == types.CHANGE_OP_TRUNCATE:
                if not change.HasField("truncate"):
                    raise broken("a truncate of nothing")
                for index in change.truncate.relation_indexes:
                    self.db.execute(f"DELETE FROM {self.table(relations, index).name}")
                    counts.truncated += 1
                continue
            table = tables.get(change.relation_index)
            if table is None:
                table = tables[change.relation_index] = self.table(relations, change.relation_index)
            if change.op == types.CHANGE_OP_INSERT:
                table.insert(*table.read(change.new_row), run)
                counts.inserted += 1
            elif change.op == types.CHANGE_OP_UPDATE:
                new = old = table.read(change.new_row)
                if change.old_row_kind != types.OLD_ROW_KIND_NONE or not table.key:
                    old = table.read(change.old_row)
                if table.update(*new, *old, run):
                    counts.updated += 1
                else:
                    counts.inserted += 1
            elif change.op == types.CHANGE_OP_DELETE:
                counts.deleted += table.delete(*table.read(change.old_row))
            else:
                raise broken("an unknown op")
