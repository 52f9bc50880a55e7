/** What becomes of the rows. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { status } from "@grpc/grpc-js";
import { ReplicaIdentity } from "../gen/sink/v1/types.js";
import {
  ABSENT,
  KEPT,
  SECRET,
  claimed,
  insert,
  refused,
  relation,
  remove,
  truncate,
  update,
} from "./client.js";

const ITEM = relation("item", "id name note");
const FULL = ReplicaIdentity.REPLICA_IDENTITY_FULL;

test("insert, update, delete", async (t) => {
  const client = await claimed(t);
  await client.send([ITEM], insert(1, "a", null), insert(2, "b", ""), insert(3, "c", "NULL"));
  const { counts } = await client.send(
    [ITEM],
    update([1, "A", "new"]),
    remove({ key: [2, ABSENT, ABSENT] }),
    remove({ key: [9, ABSENT, ABSENT] }),
    update([4, "d", null]),
  );
  assert.deepEqual([counts?.updated, counts?.deleted, counts?.inserted], [1n, 1n, 1n]);
  const rows = [
    ["1", "A", "new"],
    ["3", "c", "NULL"],
    ["4", "d", null],
  ];
  assert.deepEqual(client.rows("item"), rows);
});

test("what is unchanged stays, also where the key changes", async (t) => {
  const client = await claimed(t);
  await client.send([ITEM], insert(1, "a", "large"), insert(2, "b", "other"));
  await client.send(
    [ITEM],
    update([1, "A", KEPT]),
    insert(3, "c", "fresh"),
    update([3, "C", KEPT]),
  );
  await client.send([ITEM], update([2, "moved", KEPT], { key: [1, ABSENT, ABSENT] }));
  const rows = [
    ["2", "moved", "large"],
    ["3", "C", "fresh"],
  ];
  assert.deepEqual(client.rows("item"), rows);
});

test("a key moves on, and back", async (t) => {
  const client = await claimed(t);
  const key = (id: number) => ({ key: [id, ABSENT, ABSENT] });
  await client.send([ITEM], insert(1, "a", "x"), update([2, "a", KEPT], key(1)));
  await client.send([ITEM], update([3, "a", KEPT], key(2)), update([1, "a", KEPT], key(3)));
  assert.deepEqual(client.rows("item"), [["1", "a", "x"]]);
});

test("without a key one of the equal rows is touched", async (t) => {
  const client = await claimed(t);
  const bag = relation("bag", "a b", 0, FULL);
  await client.send([bag], insert(1, null), insert(1, null), insert(1, null));
  await client.send([bag], update([2, "x"], { full: [1, null] }), remove({ full: [1, null] }));
  assert.deepEqual(client.rows("bag"), [
    ["1", null],
    ["2", "x"],
  ]);
});

test("truncate takes every table it names, and what comes after stays", async (t) => {
  const client = await claimed(t);
  const other = relation("other", "id");
  const second = { ...insert(5), relationIndex: 1 };
  await client.send([ITEM, other], insert(1, "a", null), second);
  await client.send([ITEM, other], truncate(0, 1), { ...insert(6), relationIndex: 1 });
  assert.deepEqual([client.rows("item"), client.rows("other")], [[], [["6"]]]);
});

test("values are the bytes that were sent", async (t) => {
  const client = await claimed(t);
  const values = [
    "1.10",
    "-0",
    "NaN",
    "infinity",
    "\ufeffx\r\n\t\\",
    "😀é",
    "\\N",
    "0044-03-15 BC",
  ];
  const bytes = Buffer.from([0xff, 0xfe, 0x41]);
  await client.send([ITEM], ...values.map((value, i) => insert(i, value, bytes)));
  const rows = client.rows("item")!;
  assert.deepEqual(
    rows.map((row) => row[1]),
    values,
  );
  assert.deepEqual(new Set(rows.map((row) => row[2])), new Set([bytes.toString()]));
});

test("names are those of Postgres", async (t) => {
  const client = await claimed(t);
  const names = ["Order", "order", 'qu"ote', "a.b", "ünï", "sqlite_x", "^x", "rowid"];
  for (const name of names) await client.send([relation(name, "id _rowid_")], insert(name, name));
  for (const name of names) assert.deepEqual(client.rows(name), [[name, name]], name);
});

test("a new column arrives; a lost or retyped one is refused", async (t) => {
  const client = await claimed(t);
  await client.send([ITEM], insert(1, "a", "x"));
  const wider = relation("item", "note id name extra");
  wider.columns.forEach((column) => (column.identity = column.name === "id"));
  wider.columns.forEach((column) => (column.primaryKeyPosition = column.identity ? 1 : undefined));
  await client.send([wider], insert("y", 2, "b", "more"));
  const rows = [
    [null, "1", "a", "x"],
    ["more", "2", "b", "y"],
  ];
  assert.deepEqual(client.rows("item"), rows); // by the order of names
  await refused(client.send([ITEM], insert(3, SECRET, "")), "SCHEMA_DECLINED");
  const retyped = relation("item", "note id name extra");
  retyped.columns[3]!.typeOid = 23;
  await refused(client.send([retyped], insert("", 3, SECRET, "")), "SCHEMA_DECLINED");
  assert.deepEqual(client.rows("item"), rows);
});

test("what breaks the contract is refused without its values", async (t) => {
  const client = await claimed(t);
  const letters = { kinds: "tbt", values: insert(1, SECRET, "").newRow!.values };
  for (const bad of [
    insert(1, SECRET),
    { ...insert(), newRow: letters },
    { ...insert(1, SECRET, null), op: 99 },
    { ...insert(1, SECRET, null), newRow: undefined },
    insert(KEPT, SECRET, null),
    remove({ key: [ABSENT, SECRET, ABSENT] }),
    { ...truncate(7) },
  ])
    await refused(client.send([ITEM], insert(8, "x", null), bad), "", status.INVALID_ARGUMENT);
  assert.equal(client.rows("item"), undefined);
});
