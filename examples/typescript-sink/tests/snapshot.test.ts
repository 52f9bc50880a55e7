/** Rows that existed before the stream, beside those that it brings. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { status } from "@grpc/grpc-js";
import { SnapshotReset } from "../gen/sink/v1/types.js";
import {
  ABSENT,
  KEPT,
  chunk,
  claimed,
  insert,
  refused,
  relation,
  remove,
  update,
} from "./client.js";

const ITEM = relation("item", "id name note");
const ROWS = { firstForTable: true, reset: SnapshotReset.SNAPSHOT_RESET_SNAPSHOT_ROWS };
const ALL = { firstForTable: true, reset: SnapshotReset.SNAPSHOT_RESET_ALL };

test("an initial copy, and the position that ends it", async (t) => {
  const client = await claimed(t);
  await client.snapshot(chunk(ITEM, [["1", "a", null]], ROWS));
  await client.snapshot(chunk(ITEM, [["2", "b", ""]], { lastForTable: true }));
  await client.snapshot(chunk(ITEM, [["2", "b", ""]], { lastForTable: true }));
  const completion = { runId: Buffer.alloc(16), generation: 1n, relations: [ITEM] };
  const done = { context: client.context(), checkpointLsn: 100n, completion };
  assert.equal((await client.checkpoint()).position, undefined);
  for (let i = 0; i < 2; i++) await client.call("handleSnapshotComplete", done);
  assert.equal((await client.checkpoint()).position, 100n);
  const rows = [
    ["1", "a", null],
    ["2", "b", ""],
  ];
  assert.deepEqual(client.rows("item"), rows);
});

test("a redo removes what snapshots wrote and the stream has not touched", async (t) => {
  const client = await claimed(t);
  const rows = (n: number) => [...Array(n).keys()].map((i) => [`${i + 1}`, "old", "old"]);
  const other = relation("other", "id");
  await client.snapshot(chunk(other, [["1"]], ROWS));
  await client.snapshot(chunk(ITEM, rows(10), ROWS));
  await client.send([ITEM], insert(20, "stream", null), update([3, "stream", KEPT]));
  await client.snapshot(chunk(ITEM, [["1", "new", "new"]], { ...ROWS }));
  await client.snapshot(chunk(ITEM, [["3", "chunk", "chunk"]]));
  const now = [
    ["1", "new", "new"],
    ["20", "stream", null],
    ["3", "chunk", "chunk"],
  ];
  assert.deepEqual(client.rows("item"), now);
  await client.snapshot(chunk(ITEM, [], ROWS)); // 3 was the stream's, and stays so
  assert.deepEqual(client.rows("item"), now.slice(1));
  await client.snapshot(chunk(ITEM, [], ALL));
  assert.deepEqual([client.rows("item"), client.rows("other")], [[], [["1"]]]);
});

test("a sweep removes what neither this run nor the stream during it touched", async (t) => {
  const client = await claimed(t);
  const old = ["1", "2", "3", "4"].map((id) => [id, "old", ""]);
  await client.snapshot(chunk(ITEM, old, ROWS));
  await client.send([ITEM], insert(5, "before", ""));
  const run = { generation: 2n };
  await client.snapshot(chunk(undefined, [], run));
  await client.send([ITEM], insert(6, "during", ""), update([2, "during", KEPT]));
  await client.send([ITEM], update([7, "moved", KEPT], { key: [3, ABSENT, ABSENT] }));
  await client.snapshot(chunk(ITEM, [["1", "chunk", ""]], run));
  await client.snapshot(chunk(ITEM, [], { ...run, lastForTable: true }));
  assert.equal(client.rows("item")!.length, 6);
  await client.snapshot(chunk(ITEM, [], { ...run, lastForTable: true, sweep: true }));
  assert.deepEqual(
    client.rows("item")!.map((row) => row.slice(0, 2)),
    [
      ["1", "chunk"],
      ["2", "during"],
      ["6", "during"],
      ["7", "moved"],
    ],
  );
});

test("the token is kept with the rows, bit by bit", async (t) => {
  const client = await claimed(t);
  assert.equal(await client.token(), undefined);
  const first = Buffer.from([0, 255, 0]);
  await client.snapshot(chunk(undefined, [], { progressToken: first }));
  await client.snapshot(chunk(ITEM, [["1", "a", ""]], ROWS));
  assert.deepEqual(await client.token(), first);
  const bad = chunk(ITEM, [["2", "b"]], { progressToken: Buffer.from("lost") });
  await refused(client.snapshot(bad), "", status.INVALID_ARGUMENT);
  assert.deepEqual(await client.token(), first);
  await client.snapshot(chunk(undefined, [], { progressToken: Buffer.alloc(0) }));
  assert.deepEqual(await client.token(), Buffer.alloc(0));
});

test("a chunk replaces whole rows that the stream brought in part", async (t) => {
  const client = await claimed(t);
  await client.send([ITEM], update([1, "part", KEPT]), remove({ key: [9, ABSENT, ABSENT] }));
  await client.snapshot(chunk(ITEM, [["1", "whole", "whole"]]));
  assert.deepEqual(client.rows("item"), [["1", "whole", "whole"]]);
});

test("a snapshot is fenced and tested for gaps like any write", async (t) => {
  const client = await claimed(t);
  const gap = client.snapshot(chunk(ITEM, []), { expectedCheckpoint: 5n });
  await refused(gap, "CHECKPOINT_BEHIND");
  client.epoch = 0n;
  await refused(client.snapshot(chunk(ITEM, [["1", "a", ""]], ROWS)), "FENCED");
  assert.equal(client.rows("item"), undefined);
});
