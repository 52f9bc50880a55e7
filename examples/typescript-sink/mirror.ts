/**
 * Rows of Postgres as rows of SQLite: the half that your own sink does in its own way.
 *
 * Columns have no type, so SQLite converts nothing: a value is TEXT with exactly the bytes that
 * Postgres printed, or a BLOB where these are not UTF-8. NULL is NULL, or a value that was never
 * sent: an old row's large value that no change has touched since the stream began.
 */

import { isUtf8 } from "node:buffer";
import type { Database } from "./sqlite.js";
import type { Store } from "./checkpoint.js";
import { broken } from "./errors.js";
import {
  ChangeOp,
  OldRowKind,
  SnapshotReset,
  type Change,
  type Relation,
  type Row,
  type SnapshotUnit,
} from "./gen/sink/v1/types.js";
import { CATALOG, FROM_SNAPSHOT, FROM_STREAM, GENERATION, ORIGIN, Shape } from "./shape.js";

type Value = string | Uint8Array | null;

/** A letter per column, t for NULL too, and a value per column, null if it has none. */
interface Carried {
  kinds: string;
  values: Value[];
}

export class Counts {
  inserted = 0n;
  updated = 0n;
  deleted = 0n;
  truncated = 0n;
  replayedTransactions = 0n;
}

/** Applies changes inside the SQLite transaction that its caller holds open. */
export class Mirror {
  private readonly db: Database;
  private readonly shapes = new Map<string, { told: Relation; shape: Shape }>();
  private version: number;

  constructor(private readonly store: Store) {
    this.db = store.db;
    this.version = store.version;
    this.db.exec(CATALOG);
  }

  /** Changes of one transaction. The generation is that of the run under way. */
  apply(relations: Relation[], changes: Change[], generation: bigint, counts: Counts) {
    const tables = this.tables(relations);
    for (const change of changes) {
      if (change.op === ChangeOp.CHANGE_OP_MESSAGE) continue; // no row of a table: message.ts keeps it
      if (change.op === ChangeOp.CHANGE_OP_TRUNCATE) {
        for (const index of part(change.truncate).relationIndexes) {
          this.db.exec(`DELETE FROM ${tables(index).name}`);
          counts.truncated++;
        }
        continue;
      }
      if (change.op === ChangeOp.CHANGE_OP_INSERT) {
        const shape = tables(change.relationIndex);
        insert(shape, read(shape, change.newRow), FROM_STREAM, generation);
        counts.inserted++;
      } else if (change.op === ChangeOp.CHANGE_OP_UPDATE) {
        const shape = tables(change.relationIndex);
        const row = read(shape, change.newRow);
        const own = change.oldRowKind === OldRowKind.OLD_ROW_KIND_NONE && shape.key.length > 0;
        const known = update(shape, row, own ? row : read(shape, change.oldRow), generation);
        if (known) counts.updated++;
        else counts.inserted++;
      } else if (change.op === ChangeOp.CHANGE_OP_DELETE) {
        const shape = tables(change.relationIndex);
        const { kinds, values } = read(shape, change.oldRow);
        const { statement, found } = shape.change("", kinds);
        counts.deleted += BigInt(statement.run(...found.map((i) => values[i]!)).changes);
      } else {
        throw broken("an unknown op");
      }
    }
  }

  /** One unit of a snapshot: what its flags say, and whole rows over those at their keys. */
  copy(unit: SnapshotUnit) {
    if (!unit.relation) {
      if (unit.rows.length) throw broken("rows without a relation");
      return;
    }
    const shape = this.tables([unit.relation])(0);
    const run = BigInt.asIntN(64, unit.generation);
    if (unit.firstForTable) {
      if (unit.reset === SnapshotReset.SNAPSHOT_RESET_ALL)
        this.db.exec(`DELETE FROM ${shape.name}`);
      else if (unit.reset === SnapshotReset.SNAPSHOT_RESET_SNAPSHOT_ROWS)
        this.db.exec(`DELETE FROM ${shape.name} WHERE ${ORIGIN} = ${FROM_SNAPSHOT}`);
      else throw broken("what does the first unit remove?");
    }
    for (const row of unit.rows) insert(shape, read(shape, row), FROM_SNAPSHOT, unit.generation);
    if (unit.lastForTable && unit.sweep)
      this.db.prepare(`DELETE FROM ${shape.name} WHERE ${GENERATION} IS NOT ?`).run(run);
  }

  private tables(relations: Relation[]) {
    if (this.version !== this.store.version) this.shapes.clear();
    this.version = this.store.version;
    const found: Shape[] = [];
    return (index: number) => (found[index] ??= this.shape(part(relations[index])));
  }

  private shape(told: Relation): Shape {
    const name = JSON.stringify([told.schemaName, told.tableName]);
    let one = this.shapes.get(name);
    if (!one || !same(one.told, told)) {
      one = { told, shape: new Shape(this.db, told) };
      this.shapes.set(name, one);
    }
    return one.shape;
  }
}

function same(a: Relation, b: Relation): boolean {
  return (
    a.replicaIdentity === b.replicaIdentity &&
    a.columns.length === b.columns.length &&
    a.columns.every((column, i) => {
      const other = b.columns[i]!;
      return (
        column.name === other.name &&
        column.typeOid === other.typeOid &&
        column.identity === other.identity &&
        column.primaryKeyPosition === other.primaryKeyPosition
      );
    })
  );
}

/** What the contract requires at this place. */
function part<T>(one: T | undefined): T {
  if (one === undefined) throw broken("a part is missing, or an index out of range");
  return one;
}

function read(shape: Shape, row: Row | undefined): Carried {
  const { kinds, values } = part(row);
  if (kinds.length !== shape.width || values.length !== shape.width || /[^tnua]/.test(kinds))
    throw broken(`${shape.title}: kinds or values do not fit the relation`);
  const text = (value: Buffer) => (isUtf8(value) ? value.toString() : value);
  return {
    kinds: kinds.replaceAll("n", "t"),
    values: values.map((value, i) => (kinds[i] === "t" ? text(value) : null)),
  };
}

function insert(shape: Shape, row: Carried, origin: number, generation: bigint) {
  const { statement, use } = shape.insertion(row.kinds, origin);
  statement.run(...use.map((i) => row.values[i]!), BigInt.asIntN(64, generation));
}

/** Sets what is carried in the row with the old key. False: there was none. */
function update(shape: Shape, row: Carried, old: Carried, generation: bigint): boolean {
  for (let i = 0; i < row.kinds.length; i++) {
    if (row.kinds[i] === "u" && old.kinds[i] === "t") {
      row.kinds = row.kinds.slice(0, i) + "t" + row.kinds.slice(i + 1);
      row.values[i] = old.values[i]!;
    }
  }
  const { statement, use, found } = shape.change(row.kinds, old.kinds);
  const set = [...use.map((i) => row.values[i]!), BigInt.asIntN(64, generation)];
  if (statement.run(...set, ...found.map((i) => old.values[i]!)).changes) return true;
  insert(shape, row, FROM_STREAM, generation);
  return false;
}
