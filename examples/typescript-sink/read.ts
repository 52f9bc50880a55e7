/**
 * Prints what a mirror holds, as JSON lines, in one consistent view.
 *
 *     node dist/read.js DB                every stream, table and row; values as base64 of their bytes
 *     node dist/read.js DB schema.table   the rows of one table for reading, as {"column": "value"}
 *
 * It needs no running sink and writes nothing. Lines of the first form: {"stream", "position",
 * "epoch"}; {"schema", "table", "columns", "key", "rows"}, followed by that many {"row": [...]},
 * null where the value is NULL. Columns are sorted by name; rows by their key, or as a whole where a
 * table has none, as bytes.
 */

import { fileURLToPath } from "node:url";
import { quote } from "./shape.js";
import { DatabaseSync, type Database } from "./sqlite.js";

type Value = Buffer | null;

export interface Table {
  schema: string;
  table: string;
  columns: string[];
  key: string[];
  rows: Value[][];
}

/** The file, read only, as it was committed at this moment. */
export function opened<T>(path: string, work: (db: Database) => T): T {
  const db = new DatabaseSync(path, { readOnly: true, timeout: 20_000 });
  try {
    db.exec("BEGIN");
    return work(db);
  } finally {
    db.close();
  }
}

/** Stream, position or null, epoch. */
export function streams(db: Database) {
  const query = "SELECT stream_id, position, epoch FROM _replicant_streams ORDER BY 1";
  return db.prepare(query).all() as { stream_id: string; position: string | null; epoch: string }[];
}

export function tables(db: Database): Table[] {
  const query = `SELECT pg_schema, pg_table, pg_column, key_position, "table", "column"
    FROM _replicant_columns ORDER BY 1, 2, 3`;
  const homes = new Map<string, any[]>();
  for (const entry of db.prepare(query).all() as any[]) {
    const home = JSON.stringify([entry.pg_schema, entry.pg_table]);
    homes.set(home, [...(homes.get(home) ?? []), entry]);
  }
  return [...homes.values()].map((columns) => {
    const places = [...columns.keys()].filter((i) => columns[i].key_position);
    places.sort((a, b) => columns[a].key_position - columns[b].key_position);
    const order = places.length ? places : [...columns.keys()];
    const names = columns.map((column) => quote(column.column)).join(", ");
    const found = db.prepare(`SELECT ${names} FROM ${quote(columns[0].table)}`).all() as any[];
    const rows = found.map((row) => columns.map((column) => bytes(row[column.column])));
    rows.sort((a, b) => order.map((i) => compare(a[i]!, b[i]!)).find((sign) => sign) ?? 0);
    return {
      schema: columns[0].pg_schema,
      table: columns[0].pg_table,
      columns: columns.map((column) => column.pg_column),
      key: places.map((i) => columns[i].pg_column),
      rows,
    };
  });
}

const bytes = (value: string | Uint8Array | null): Value =>
  value === null ? null : Buffer.from(value as string);

const compare = (a: Value, b: Value) =>
  a && b ? Buffer.compare(a, b) : Number(a !== null) - Number(b !== null);

const lsn = (position: bigint) =>
  `${(position >> 32n).toString(16)}/${(position & 0xffffffffn).toString(16)}`.toUpperCase();

export function* dump(db: Database) {
  for (const { stream_id, position, epoch } of streams(db))
    yield { stream: stream_id, position: position === null ? null : lsn(BigInt(position)), epoch };
  for (const { rows, ...head } of tables(db)) {
    yield { ...head, rows: rows.length };
    for (const row of rows) yield { row: row.map((value) => value && value.toString("base64")) };
  }
}

function* pretty(db: Database, name: string) {
  for (const { schema, table, columns, rows } of tables(db))
    if (`${schema}.${table}` === name)
      for (const row of rows)
        yield Object.fromEntries(columns.map((column, i) => [column, row[i]?.toString() ?? null]));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [path, name] = process.argv.slice(2);
  if (!path || path.startsWith("-")) {
    console.error("usage: node dist/read.js DB [schema.table]");
    process.exit(2);
  }
  opened(path, (db) => {
    for (const line of name ? pretty(db, name) : dump(db)) console.log(JSON.stringify(line));
  });
}
