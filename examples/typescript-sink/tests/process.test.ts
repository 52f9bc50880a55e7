/** The sink as a process: killed, stopped, and beside another. Rows and position agree. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { statSync } from "node:fs";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import {
  Client,
  claimed,
  folder,
  insert,
  refused,
  relation,
  transaction,
  update,
} from "./client.js";

const KEYED = relation("keyed", "id n");
const LOG = relation("log", "n", 0);
const SINK = fileURLToPath(new URL("../sink.js", import.meta.url));

function start(t: TestContext, listen: string, path: string) {
  const env = { ...process.env, REPLICANT_SINK_LISTEN: listen, REPLICANT_SINK_DB: path };
  const child = spawn(process.execPath, [SINK], { env, stdio: ["ignore", "ignore", "pipe"] });
  const exited = once(child, "exit");
  t.after(() => child.kill("SIGKILL"));
  return { child, exited, listening: once(child.stderr, "data") };
}

/** Transaction n: one row more in both tables, and the row of n - 1 changes its key. */
function unit(n: number) {
  const changes = [{ ...insert(n), relationIndex: 1 }, insert(`new ${n}`, n)];
  if (n > 1) changes.push(update([`old ${n - 1}`, n - 1], { key: [`new ${n - 1}`, null] }));
  return transaction(n * 10, ...changes);
}

function agree(client: Client, n: number) {
  const all = [...Array(n).keys()].map((i) => i + 1);
  const keyed = all.map((i) => [i === n ? `new ${i}` : `old ${i}`, `${i}`]);
  assert.deepEqual(client.rows("keyed") ?? [], keyed.sort());
  assert.deepEqual(client.rows("log") ?? [], all.map((i) => [`${i}`]).sort());
}

test("kill -9 at any moment", async (t) => {
  const home = folder(t);
  const [listen, path] = [`unix:${home}/sink.sock`, `${home}/mirror.db`];
  let known = 0;
  for (let epoch = 1n; epoch <= 4n; epoch++) {
    const { child, exited } = start(t, listen, path); // over the socket that the last one left
    const client = new Client(listen, path);
    let n = Number((await client.claim(epoch)).position ?? 0n) / 10;
    assert.ok(n >= known, "what was acknowledged is gone");
    agree(client, n);
    const after = 50 + Math.random() * 200;
    console.log(`killed after ${after} ms at ${n}`);
    setTimeout(() => child.kill("SIGKILL"), after);
    try {
      for (;;) {
        const units = [Math.max(1, n - 1), n + 1, n + 2].map(unit);
        await client.batch([KEYED, LOG], units.slice(n > 1 ? 0 : 1), {
          expectedCheckpoint: n ? BigInt(n * 10) : undefined,
        });
        n += 2;
      }
    } catch {
      known = n; // the process is gone
    }
    await exited;
    client.stub.close();
  }
  assert.ok(known > 0);
});

test("SIGTERM lets the call in flight end", async (t) => {
  const home = folder(t);
  const [listen, path] = [`unix:${home}/sink.sock`, `${home}/mirror.db`];
  const { child, exited, listening } = start(t, listen, path);
  await listening;
  for (const made of ["sink.sock", "mirror.db", "mirror.db-wal"])
    assert.equal(statSync(`${home}/${made}`).mode & 0o077, 0, made);
  const client = new Client(listen, path);
  await client.claim(1n);
  const { call, done } = client.open();
  const frames = client.frames(20, [LOG], insert("a"));
  for (const frame of frames.slice(0, -1)) call.write({ frame });
  await client.checkpoint(); // on the same connection: the frames are there before it
  child.kill("SIGTERM");
  await new Promise((wait) => setTimeout(wait, 100));
  call.write({ frame: frames.at(-1) });
  call.end();
  assert.equal((await done).checkpointLsn, 20n);
  assert.deepEqual(await exited, [0, null]);
  assert.deepEqual(client.rows("log"), [["a"]]);
  client.stub.close();
});

test("an address in use is an error", async (t) => {
  const home = folder(t);
  const first = start(t, `unix:${home}/sink.sock`, `${home}/one.db`);
  await first.listening;
  const second = start(t, `unix:${home}/sink.sock`, `${home}/two.db`);
  const [code] = await second.exited;
  assert.notEqual(code, 0);
  const client = new Client(`unix:${home}/sink.sock`, "");
  assert.equal((await client.checkpoint()).epoch, 0n); // the first one still answers
  client.stub.close();
});

test("two processes on one file", async (t) => {
  const home = folder(t);
  const path = `${home}/mirror.db`;
  const [one, two] = [1, 2].map((n) => {
    start(t, `unix:${home}/${n}.sock`, path);
    return new Client(`unix:${home}/${n}.sock`, path);
  }) as [Client, Client];
  await one.claim(1n);
  await one.batch([LOG], [transaction(10, insert("a"))]);
  assert.equal((await two.claim(2n)).position, 10n);
  await refused(one.batch([LOG], [transaction(20, insert("old"))]), "FENCED");
  await two.batch([LOG], [transaction(20, insert("new"))]);
  assert.deepEqual(two.rows("log"), [["a"], ["new"]]);
  one.stub.close();
  two.stub.close();
});

test("two sidecars write at once, and only the later gets through", async (t) => {
  const one = await claimed(t);
  const two = new Client(one.stub.getChannel().getTarget(), one.path, "t");
  const old = [...Array(100).keys()].map((n) =>
    one.batch([LOG], [transaction(n + 1, insert("old"))]).then(
      () => undefined,
      (error) => error.metadata.get("sink-reason")[0],
    ),
  );
  const { position = 0n } = await two.claim(2n);
  await two.batch([LOG], [transaction(position + 1n, insert("new"))], {
    expectedCheckpoint: position || undefined,
  });
  const refusals = (await Promise.all(old)).filter((reason) => reason);
  assert.equal(refusals.length, 100 - Number(position));
  assert.ok(refusals.every((reason) => reason === "FENCED"));
  assert.equal(two.rows("log")!.length, Number(position) + 1);
  two.stub.close();
});
