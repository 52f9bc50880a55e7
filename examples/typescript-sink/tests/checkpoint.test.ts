/** Who may write, and how far we are. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { status } from "@grpc/grpc-js";
import { CheckpointOwner } from "../gen/sink/v1/types.js";
import { claimed, insert, refused, relation, served, transaction } from "./client.js";

const LOG = relation("log", "n", 0);

test("a read creates nothing, and absent is not 0", async (t) => {
  const client = (await served(t)).connect();
  const answer = await client.checkpoint();
  assert.deepEqual([answer.position, answer.epoch, answer.resumeState], [undefined, 0n, undefined]);
  await client.checkpoint({ database: "another" });
});

test("a claim is repeated by its sender and refused to others", async (t) => {
  const { connect } = await served(t);
  const [one, two] = [connect("s"), connect("t")];
  const { lineage } = await one.claim(3n);
  assert.equal(lineage.length, 16);
  assert.deepEqual((await one.claim(3n)).lineage, lineage);
  await refused(two.claim(3n), "FENCED");
  await refused(two.claim(2n), "FENCED");
  assert.equal((await two.claim(4n)).epoch, 4n);
  await refused(one.batch([LOG], [transaction(10, insert("x"))]), "FENCED");
  assert.equal(two.rows("log"), undefined);
});

test("a stream belongs to one source, whatever slot and timeline", async (t) => {
  const client = await claimed(t);
  await refused(client.checkpoint({ database: "another" }), "SOURCE_MISMATCH");
  await refused(client.claim(2n, { systemIdentifier: "8" }), "SOURCE_MISMATCH");
  assert.equal((await client.claim(2n, { slot: "x", timeline: 9 })).epoch, 2n);
});

test("an epoch that was not claimed here is a gap", async (t) => {
  const client = (await served(t)).connect();
  client.epoch = 1n;
  await refused(client.batch([LOG], [transaction(10, insert("x"))]), "CHECKPOINT_BEHIND");
  await client.claim(1n);
  client.epoch = 2n;
  await refused(client.batch([LOG], [transaction(10, insert("x"))]), "CHECKPOINT_BEHIND");
});

test("positions and epochs have 64 bits", async (t) => {
  const client = (await served(t)).connect();
  await client.claim(2n ** 64n - 3n);
  for (const end of [2n ** 53n + 1n, 2n ** 63n + 5n, 2n ** 64n - 2n]) {
    const answer = await client.batch([LOG], [transaction(end, insert(String(end)))]);
    assert.equal(answer.checkpointLsn, end);
    assert.equal((await client.checkpoint()).position, end);
  }
  assert.equal((await client.checkpoint()).epoch, 2n ** 64n - 3n);
});

test("what the position covers is skipped and counted, whatever the grouping", async (t) => {
  const client = await claimed(t);
  const units = [1, 2, 3, 4].map((n) => transaction(n * 10, insert(`n${n}`)));
  await client.batch([LOG], units.slice(0, 3));
  const { counts, checkpointLsn } = await client.batch([LOG], units.slice(1), {
    expectedCheckpoint: 30n,
  });
  assert.deepEqual([counts?.replayedTransactions, counts?.inserted], [2n, 1n]);
  assert.equal(checkpointLsn, 40n);
  const again = await client.batch([LOG], units.slice(0, 1));
  assert.deepEqual([again.checkpointLsn, again.counts?.replayedTransactions], [10n, 1n]);
  assert.deepEqual(client.rows("log"), [["n1"], ["n2"], ["n3"], ["n4"]]);
  assert.equal((await client.checkpoint()).position, 40n);
});

test("a commit that starts exactly at the position is new", async (t) => {
  const client = await claimed(t);
  await client.batch([LOG], [transaction(10, insert("a"))]);
  await client.batch([LOG], [{ ...transaction(20, insert("b")), commitLsn: 10n }]);
  assert.deepEqual(client.rows("log"), [["a"], ["b"]]);
});

test("a gap is refused and nothing is applied", async (t) => {
  const client = await claimed(t);
  const late = [transaction(30, insert("late"))];
  await refused(client.batch([LOG], late, { expectedCheckpoint: 20n }), "CHECKPOINT_BEHIND");
  await client.batch([LOG], [transaction(10, insert("a"))]);
  await refused(client.batch([LOG], late, { expectedCheckpoint: 20n }), "CHECKPOINT_BEHIND");
  assert.deepEqual(client.rows("log"), [["a"]]);
});

test("an idle step moves the position, and resume state goes with it", async (t) => {
  const client = await claimed(t);
  const resumeState = Buffer.from([0, 255, 7]);
  await client.batch([], [], { checkpointLsn: 50n, resumeState });
  await client.batch([], [], { checkpointLsn: 60n });
  await client.batch([], [], { checkpointLsn: 55n, resumeState: Buffer.from("lower") });
  const stored = await client.checkpoint();
  assert.deepEqual([stored.position, stored.resumeState], [60n, resumeState]);
});

test("a refused unit leaves nothing behind, and the next one works", async (t) => {
  const client = await claimed(t);
  const bad = { ...insert("b"), relationIndex: 7 };
  const call = client.batch([LOG], [transaction(10, insert("a")), transaction(20, bad)]);
  await refused(call, "", status.INVALID_ARGUMENT);
  assert.equal(client.rows("log"), undefined);
  const falling = [transaction(20, insert("a")), transaction(10, insert("b"))];
  await refused(client.batch([LOG], falling), "", status.INVALID_ARGUMENT);
  const unsaid = { context: client.context({ checkpointOwner: 0 }) };
  await refused(client.batch([LOG], [], { ...unsaid }), "", status.INVALID_ARGUMENT);
  await client.batch([LOG], [transaction(10, insert("a"))]);
  assert.deepEqual(client.rows("log"), [["a"]]);
});

test("where the sidecar keeps the checkpoint, a memory keeps late calls out", async (t) => {
  const client = (await served(t)).connect();
  const owner = CheckpointOwner.CHECKPOINT_OWNER_SIDECAR;
  const send = (epoch: bigint, sequence: bigint) => {
    const context = client.context({ checkpointOwner: owner, epoch, sequence });
    return client.batch([LOG], [transaction(10, insert(`${epoch}.${sequence}`))], { context });
  };
  await refused(send(1n, 1n), "INSTANCE_CHANGED");
  client.instanceId = Buffer.from((await client.capabilities()).instanceId);
  await send(2n, 2n);
  await refused(send(2n, 2n), "STALE_DELIVERY");
  await refused(send(1n, 9n), "FENCED");
  await send(3n, 1n);
  assert.deepEqual(client.rows("log"), [["2.2"], ["3.1"]]);
  assert.equal((await client.checkpoint()).position, undefined);
});

test("a claim answers after the write in progress, with what it wrote", async (t) => {
  const { connect } = await served(t);
  const [one, two] = [connect("s"), connect("t")];
  await one.claim(1n);
  const frames = one.frames(10, [LOG], insert("a"));
  const { call, done } = one.open();
  for (const frame of frames.slice(0, -1)) call.write({ frame });
  await untilBusy(one.path);
  let answered = false;
  const claim = two.claim(2n).then((answer) => ((answered = true), answer));
  assert.equal((await two.checkpoint()).position, undefined); // a read waits for nobody
  assert.equal(answered, false);
  call.write({ frame: frames.at(-1) });
  call.end();
  assert.equal((await done).checkpointLsn, 10n);
  assert.equal((await claim).position, 10n);
});

/** Until a transaction holds the file: ours is then refused at once. */
async function untilBusy(path: string) {
  const { DatabaseSync } = await import("../sqlite.js");
  const db = new DatabaseSync(path, { timeout: 0 });
  for (let busy = false; !busy; await new Promise(setImmediate)) {
    try {
      db.exec("BEGIN IMMEDIATE");
      db.exec("ROLLBACK");
    } catch {
      busy = true;
    }
  }
  db.close();
}
