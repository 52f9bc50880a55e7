/** Messages: stored once with their position, alone and among the changes of a transaction. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { status } from "@grpc/grpc-js";
import { ChangeOp, CheckpointOwner, type Change } from "../gen/sink/v1/types.js";
import { DatabaseSync } from "../sqlite.js";
import { claimed, insert, refused, relation, served, transaction, type Client } from "./client.js";

const LOG = relation("log", "n", 0);

function alone(client: Client, lsn: bigint, prefix = "p", content = Buffer.from("c"), fields = {}) {
  const message = { transactional: false, lsn, prefix: Buffer.from(prefix), content };
  const request = { context: client.context(), checkpointLsn: lsn, message, ...fields };
  return client.call<{}, { checkpointLsn?: bigint }>("handleMessage", request);
}

function inside(prefix: string): Change {
  const bytes = { prefix: Buffer.from(prefix), content: Buffer.from("c") };
  const message = { transactional: true, lsn: 5n, ...bytes };
  return { ...insert(), op: ChangeOp.CHANGE_OP_MESSAGE, newRow: undefined, message };
}

function kept(client: Client) {
  const db = new DatabaseSync(client.path);
  try {
    const rows = db.prepare("SELECT * FROM _replicant_messages ORDER BY rowid").all() as any[];
    const text = (value: Uint8Array) => Buffer.from(value).toString("latin1");
    return rows.map((r) => [r.commit_lsn, r.ordinal, text(r.prefix), text(r.content)]);
  } finally {
    db.close();
  }
}

test("a message alone is stored once, with its position and the resume state", async (t) => {
  const [client, at] = [await claimed(t), 2n ** 63n];
  const resumeState = Buffer.from("shapes");
  for (let i = 0; i < 2; i++) {
    const answer = await alone(client, at, "", Buffer.from([0, 255]), { resumeState });
    assert.equal(answer.checkpointLsn, at);
    assert.deepEqual(kept(client), [[String(at), 0, "", "\x00\xff"]]);
  }
  const { position, resumeState: stored } = await client.checkpoint();
  assert.deepEqual([position, stored], [at, resumeState]);
});

test("a message at or below the position is a replay", async (t) => {
  const client = await claimed(t);
  const at = (await client.send([LOG], insert("a"))).checkpointLsn!;
  for (const lsn of [at, at - 1n]) assert.equal((await alone(client, lsn)).checkpointLsn, lsn);
  assert.deepEqual(kept(client), []);
  assert.equal((await client.checkpoint()).position, at);
  await alone(client, at + 1n, "p", Buffer.from("c"), { expectedCheckpoint: at });
  assert.equal(kept(client).length, 1);
});

test("a gap, an old epoch and a wrong position are refused", async (t) => {
  const client = await claimed(t);
  const wrong = (fields: {}) => alone(client, 50n, "p", Buffer.from("c"), fields);
  await refused(wrong({ expectedCheckpoint: 40n }), "CHECKPOINT_BEHIND");
  await refused(wrong({ context: client.context({ epoch: 0n }) }), "FENCED");
  await refused(wrong({ checkpointLsn: 49n }), "", status.INVALID_ARGUMENT);
  await refused(wrong({ message: undefined }), "", status.INVALID_ARGUMENT);
  assert.deepEqual(kept(client), []);
  assert.equal((await client.checkpoint()).position, undefined);
});

test("a message is not stored without its position", async (t) => {
  const { sink, connect } = await served(t);
  const client = connect();
  await client.claim(1n);
  sink.store.db.exec(
    "CREATE TRIGGER no BEFORE UPDATE ON _replicant_streams BEGIN SELECT raise(ABORT, 'x'); END",
  );
  await refused(alone(client, 50n), "UNIT_REJECTED");
  assert.deepEqual(kept(client), []);
});

for (const large of [false, true])
  test(`messages among the changes of a ${large ? "large " : ""}transaction`, async (t) => {
    const client = await claimed(t);
    const changes = [inside("1"), insert("a"), inside("2"), inside("")];
    for (let i = 0; i < 2; i++) {
      if (large) await client.large(client.frames(1010, [LOG], ...changes));
      else await client.batch([LOG], [transaction(1010, ...changes)]);
      const places = [
        [0, "1"],
        [2, "2"],
        [3, ""],
      ];
      assert.deepEqual(
        kept(client),
        places.map(([place, prefix]) => ["1009", place, prefix, "c"]),
      );
      assert.deepEqual(client.rows("log"), [["a"]]);
    }
    const nothing = { ...inside(""), message: undefined };
    const broken = client.batch([LOG], [transaction(1020, nothing)]);
    await refused(broken, "", status.INVALID_ARGUMENT);
  });

test("where the sidecar keeps the position, a message may come again", async (t) => {
  const client = (await served(t)).connect();
  client.instanceId = Buffer.from((await client.capabilities()).instanceId);
  const checkpointOwner = CheckpointOwner.CHECKPOINT_OWNER_SIDECAR;
  for (const sequence of [1n, 2n]) {
    const context = client.context({ checkpointOwner, epoch: 1n, sequence });
    await alone(client, 50n, "p", Buffer.from("c"), { context, checkpointLsn: undefined });
  }
  assert.equal(kept(client).length, 2);
  assert.equal((await client.checkpoint()).position, undefined);
});
