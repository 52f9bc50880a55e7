/**
 * How a table of Postgres lies in SQLite, and the statements that change it.
 *
 * A table public.orders becomes the SQLite table "public.orders". SQLite ignores the case of
 * ASCII letters in names, so capitals, dots and ^ are escaped: a column "Order.No" is
 * "^order^.^no". The table _replicant_columns has the names as they are in Postgres.
 */

import type { Database, Statement } from "./sqlite.js";
import { broken, refused } from "./errors.js";
import { ReplicaIdentity, type Relation } from "./gen/sink/v1/types.js";

export const CATALOG = `CREATE TABLE IF NOT EXISTS _replicant_columns (
  pg_schema TEXT, pg_table TEXT, pg_column TEXT, type_oid INTEGER, key_position INTEGER,
  "table" TEXT, "column" TEXT, PRIMARY KEY (pg_schema, pg_table, pg_column))`;

// Two columns of our own, by names that no column of Postgres is given here: whether a
// snapshot wrote the row and the stream has not touched it, and the run that was under way.
export const ORIGIN = '"^-origin"';
export const GENERATION = '"^-generation"';
export const FROM_SNAPSHOT = 1;
export const FROM_STREAM = 0;

/** The name in SQLite: ^x for X, ^. for a dot, and none that SQLite reserves. */
export const safe = (name: string) =>
  name.replace(/[A-Z^.]|(?<=^sqlite)_|^_(?=rowid_$)/g, (match) => "^" + match.toLowerCase());

export const quote = (name: string) => '"' + name.replaceAll('"', '""') + '"';

/** Where a statement takes its values from: columns of the new row, columns of the old one. */
export interface Change {
  statement: Statement;
  use: number[];
  found: number[];
}

/** One table in the shape that a request told. */
export class Shape {
  readonly title: string;
  readonly name: string;
  readonly width: number;
  /** The key is what an old row carries. Without one, equal rows stay apart. */
  readonly key: number[];
  private readonly storedAs: string;
  private readonly names: string[];
  private readonly statements = new Map<string, Change>();

  constructor(
    private readonly db: Database,
    relation: Relation,
  ) {
    const { schemaName, tableName, columns, replicaIdentity } = relation;
    this.title = `${schemaName}.${tableName}`;
    this.storedAs = `${safe(schemaName)}.${safe(tableName)}`;
    this.name = quote(this.storedAs);
    this.width = columns.length;
    this.names = columns.map((column) => quote(safe(column.name)));
    // The identity columns; where that is the whole row or nothing, the primary key.
    const whole =
      replicaIdentity === ReplicaIdentity.REPLICA_IDENTITY_FULL ||
      replicaIdentity === ReplicaIdentity.REPLICA_IDENTITY_NOTHING;
    const place = (i: number) => columns[i]!.primaryKeyPosition ?? 0;
    const marked = (i: number) => (whole ? place(i) > 0 : columns[i]!.identity);
    this.key = [...columns.keys()].filter(marked).sort((a, b) => place(a) - place(b));
    this.fit(relation);
  }

  /** Creates the table or adds its new columns. Any other new shape is refused. */
  private fit({ schemaName, tableName, columns }: Relation) {
    const query = this.db.prepare(
      "SELECT * FROM _replicant_columns WHERE pg_schema = ? AND pg_table = ?",
    );
    const entries = query.all(schemaName, tableName) as any[];
    const known = new Map(entries.map((entry) => [entry.pg_column as string, entry]));
    const types = new Map(columns.map((column) => [column.name, column.typeOid]));
    if (!columns.length || entries.some((entry) => types.get(entry.pg_column) !== entry.type_oid))
      throw refused("SCHEMA_DECLINED", `${this.title}: a column was lost or retyped`);
    const place = (i: number) => this.key.indexOf(i) + 1 || null;
    if (columns.every((column, i) => known.get(column.name)?.key_position === place(i))) return;
    if (!known.size) {
      const own = `${ORIGIN}, ${GENERATION}`;
      this.db.exec(`CREATE TABLE ${this.name} (${this.names.join(", ")}, ${own})`);
    }
    const enter = this.db.prepare("REPLACE INTO _replicant_columns VALUES (?, ?, ?, ?, ?, ?, ?)");
    for (const [i, { name, typeOid }] of columns.entries()) {
      if (known.size && !known.has(name))
        this.db.exec(`ALTER TABLE ${this.name} ADD COLUMN ${this.names[i]}`);
      enter.run(schemaName, tableName, name, typeOid, place(i), this.storedAs, safe(name));
    }
    const index = quote(this.storedAs + ".key");
    const indexed = this.key.length ? this.key : [...this.names.keys()].slice(0, 8);
    const unique = this.key.length ? "UNIQUE" : "";
    this.db.exec(`DROP INDEX IF EXISTS ${index}`);
    this.db.exec(`CREATE ${unique} INDEX ${index} ON ${this.name} (${this.list(indexed)})`);
  }

  private list(columns: number[], form = (name: string) => name) {
    return columns.map((i) => form(this.names[i]!)).join(", ");
  }

  /** An insert of what is carried, over the row with this key if there is one. */
  insertion(kinds: string, origin: number): Change {
    return this.remembered(`${origin} ${kinds}`, () => {
      const use = carriedBy(kinds);
      if (!use.length || this.key.some((i) => !use.includes(i)))
        throw broken(`${this.title}: a row without its key`);
      const own = `${ORIGIN}, ${GENERATION}`;
      let sql = `INSERT INTO ${this.name} (${this.list(use)}, ${own})
        VALUES (${marks(use)}, ${origin}, ?)`;
      if (this.key.length) {
        sql += ` ON CONFLICT (${this.list(this.key)}) DO UPDATE
          SET ${this.list(use, (name) => `${name} = excluded.${name}`)},
          ${GENERATION} = excluded.${GENERATION}`;
        if (origin === FROM_STREAM) sql += `, ${ORIGIN} = ${FROM_STREAM}`;
      }
      return { sql, use, found: [] };
    });
  }

  /** An update, or a delete if there are no new letters, of at most one row. */
  change(kinds: string, oldKinds: string): Change {
    return this.remembered(`${kinds}/${oldKinds}`, () => {
      const [use, carried] = [carriedBy(kinds), carriedBy(oldKinds)];
      const found = this.key.length ? this.key : carried;
      if (!found.length || found.some((i) => !carried.includes(i)))
        throw broken(`${this.title}: an old row without its key`);
      const row = `SELECT _rowid_ FROM ${this.name}
        WHERE (${this.list(found)}) IS (${marks(found)}) LIMIT 1`;
      if (!kinds) return { sql: `DELETE FROM ${this.name} WHERE _rowid_ = (${row})`, use, found };
      // OR REPLACE: a row that moves to another key takes the place of the row there.
      const carry = use.map((i) => `${this.names[i]} = ?`);
      const own = [`${ORIGIN} = ${FROM_STREAM}`, `${GENERATION} = ?`];
      const sets = [...carry, ...own].join(", ");
      const sql = `UPDATE OR REPLACE ${this.name} SET ${sets} WHERE _rowid_ = (${row})`;
      return { sql, use, found };
    });
  }

  private remembered(name: string, make: () => { sql: string; use: number[]; found: number[] }) {
    let one = this.statements.get(name);
    if (!one) {
      const { sql, use, found } = make();
      one = { statement: this.db.prepare(sql), use, found };
      if (this.statements.size >= 256) this.statements.clear();
      this.statements.set(name, one);
    }
    return one;
  }
}

const carriedBy = (kinds: string) => [...kinds].flatMap((kind, i) => (kind === "t" ? [i] : []));

const marks = (columns: number[]) => columns.map(() => "?").join(", ");
