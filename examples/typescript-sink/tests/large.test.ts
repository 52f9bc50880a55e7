/** A transaction in many frames: all of it, or it never happened. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { status } from "@grpc/grpc-js";
import { claimed, insert, refused, relation, served, transaction, type Frame } from "./client.js";

const LOG = relation("log", "n", 0);

test("frames are applied once, and a repeat is dropped whole", async (t) => {
  const client = await claimed(t);
  const frames = client.frames(20, [LOG], insert("a"), insert("b"));
  assert.deepEqual((await client.large(frames)).counts?.inserted, 2n);
  const again = await client.large(frames);
  assert.deepEqual([again.checkpointLsn, again.counts?.replayedTransactions], [20n, 1n]);
  const replay = await client.batch([LOG], [transaction(20, insert("a"), insert("b"))]);
  assert.equal(replay.counts?.replayedTransactions, 1n);
  assert.deepEqual(client.rows("log"), [["a"], ["b"]]);
});

test("frames that are missing, unknown or out of order are refused", async (t) => {
  const client = await claimed(t);
  const good = client.frames(20, [LOG], insert("a"), insert("b"));
  const [begin, table, first, second, commit] = good as [Frame, Frame, Frame, Frame, Frame];
  for (const bad of [
    [],
    [table, first, commit],
    [begin, begin, table, first, second, commit],
    [begin, first, second, commit],
    [begin, table, second, first, commit],
    [begin, table, first, commit],
    [begin, table, first, second],
    [begin, table, undefined, first, second, commit],
    [begin, table, first, second, commit, first],
  ])
    await refused(client.large(bad), "", status.INVALID_ARGUMENT);
  assert.equal(client.rows("log"), undefined);
  await client.large(good);
  assert.deepEqual(client.rows("log"), [["a"], ["b"]]);
});

test("a cancelled stream never happened, and holds nobody up", async (t) => {
  const client = await claimed(t);
  for (let i = 0; i < 50; i++) {
    const { call, done } = client.open();
    for (const frame of client.frames(20, [LOG], insert("a")).slice(0, -1)) call.write({ frame });
    for (let turn = 0; turn < (i % 5) + 1; turn++) await new Promise(setImmediate);
    call.cancel();
    await refused(done, "", status.CANCELLED);
  }
  await client.batch([LOG], [transaction(20, insert("b"))]);
  assert.deepEqual(client.rows("log"), [["b"]]);
});

test("a connection that is lost never happened", async (t) => {
  const { connect } = await served(t);
  const [one, two] = [connect(), connect()];
  await one.claim(1n);
  two.epoch = 1n;
  const { call, done } = one.open();
  for (const frame of one.frames(20, [LOG], insert("a")).slice(0, -1)) call.write({ frame });
  one.stub.close();
  call.cancel();
  await refused(done, "", status.CANCELLED);
  await two.batch([LOG], [transaction(20, insert("b"))]);
  assert.deepEqual(two.rows("log"), [["b"]]);
});

test("a replaced sidecar is refused at begin", async (t) => {
  const { connect } = await served(t);
  const [one, two] = [connect("s"), connect("t")];
  await one.claim(1n);
  await two.claim(2n);
  await refused(one.large(one.frames(20, [LOG], insert("a"))), "FENCED");
});
