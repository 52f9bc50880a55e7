/** One sidecar of one stream, for tests: its calls carry what the contract asks for. */

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { credentials, Metadata, status, type ServiceError } from "@grpc/grpc-js";
import * as pb from "../gen/sink/v1/sink.js";
import {
  ChangeOp,
  CheckpointOwner,
  OldRowKind,
  ReplicaIdentity,
  SnapshotReset,
  type Change,
  type Relation,
  type Row,
  type SnapshotUnit,
  type StreamContext,
  type Transaction,
} from "../gen/sink/v1/types.js";
import { opened, tables } from "../read.js";
import { serve } from "../server.js";
import { SqliteSink } from "../sink.js";

const SOURCE = { systemIdentifier: "7", database: "shop", slot: "s", timeline: 1 };
export const SECRET = "canary-4711";
export const KEPT = Symbol("u");
export const ABSENT = Symbol("a");
type Value = string | number | Buffer | null | symbol;

export function relation(table: string, columns: string, key = 1, identity?: ReplicaIdentity) {
  const names = columns.split(" ");
  const whole = identity === ReplicaIdentity.REPLICA_IDENTITY_FULL;
  return {
    relationOid: 1,
    schemaName: "public",
    tableName: table,
    replicaIdentity: identity ?? ReplicaIdentity.REPLICA_IDENTITY_DEFAULT,
    shapeHash: 0n,
    columns: names.map((name, i) => ({
      name,
      typeOid: 25,
      typeModifier: -1,
      identity: whole || i < key,
      primaryKeyPosition: i < key ? i + 1 : undefined,
      typeName: "text",
      baseTypeOid: 0,
      elementTypeOid: 0,
    })),
  } satisfies Relation;
}

/** null is NULL; KEPT and ABSENT are their letters; anything else is a value. */
export function row(values: Value[]): Row {
  const letter = (value: Value) =>
    typeof value === "symbol" ? value.description! : value === null ? "n" : "t";
  const bytes = (value: Value) =>
    Buffer.isBuffer(value) ? value : Buffer.from(letter(value) === "t" ? String(value) : "");
  return { kinds: values.map(letter).join(""), values: values.map(bytes) };
}

const nothing: Change = {
  op: ChangeOp.CHANGE_OP_UNSPECIFIED,
  relationIndex: 0,
  newRow: undefined,
  oldRow: undefined,
  oldRowKind: OldRowKind.OLD_ROW_KIND_NONE,
  truncate: undefined,
  message: undefined,
};

export const insert = (...values: Value[]): Change => ({
  ...nothing,
  op: ChangeOp.CHANGE_OP_INSERT,
  newRow: row(values),
});

const before = (key?: Value[], full?: Value[]) => ({
  oldRowKind: full ? OldRowKind.OLD_ROW_KIND_FULL : key ? OldRowKind.OLD_ROW_KIND_KEY : 0,
  oldRow: full || key ? row((full ?? key)!) : undefined,
});

export const update = (values: Value[], old: { key?: Value[]; full?: Value[] } = {}): Change => ({
  ...nothing,
  op: ChangeOp.CHANGE_OP_UPDATE,
  newRow: row(values),
  ...before(old.key, old.full),
});

export const remove = (old: { key?: Value[]; full?: Value[] }): Change => ({
  ...nothing,
  op: ChangeOp.CHANGE_OP_DELETE,
  ...before(old.key, old.full),
});

export const truncate = (...relationIndexes: number[]): Change => ({
  ...nothing,
  op: ChangeOp.CHANGE_OP_TRUNCATE,
  truncate: { relationIndexes, cascade: false, restartIdentity: false },
});

export const transaction = (end: number | bigint, ...changes: Change[]): Transaction => ({
  xid: 7,
  commitLsn: BigInt(end) - 1n,
  endLsn: BigInt(end),
  commitTime: undefined,
  origin: "",
  changes,
});

export const chunk = (table: Relation | undefined, rows: Value[][], flags = {}): SnapshotUnit => ({
  relation: table,
  rows: rows.map(row),
  snapshotLsn: 1n,
  runId: Buffer.alloc(16, 1),
  generation: 1n,
  firstForTable: false,
  reset: SnapshotReset.SNAPSHOT_RESET_UNSPECIFIED,
  lastForTable: false,
  sweep: false,
  progressToken: undefined,
  backfillComplete: false,
  ...flags,
});

export type Frame = pb.HandleLargeTransactionRequest["frame"];

export class Client {
  readonly stub: pb.SinkServiceClient;
  epoch = 0n;
  end = 1000n;
  instanceId = Buffer.alloc(0);
  private called = false;

  constructor(
    listen: string,
    readonly path: string,
    readonly sender = "s",
    readonly stream = "orders",
  ) {
    this.stub = new pb.SinkServiceClient(listen, credentials.createInsecure());
  }

  call<Q, A>(name: string, request: Q): Promise<A> {
    const method = (this.stub as any)[name].bind(this.stub);
    const options = { deadline: Date.now() + 20_000 };
    const waitForReady = !this.called; // later a sink that is gone is gone
    this.called = true;
    return new Promise((done, failed) =>
      method(request, new Metadata({ waitForReady }), options, (error: unknown, answer: A) =>
        error ? failed(error) : done(answer),
      ),
    );
  }

  capabilities = () =>
    this.call<pb.GetCapabilitiesRequest, pb.GetCapabilitiesResponse>("getCapabilities", {
      protocolMinor: 0,
      sidecarVersion: "test",
    });

  checkpoint(source = {}, claim?: pb.CheckpointClaim): Promise<pb.CheckpointResponse> {
    return this.call("checkpoint", {
      streamId: this.stream,
      source: { ...SOURCE, ...source },
      claim,
    });
  }

  async claim(epoch: bigint, source = {}) {
    const senderId = Buffer.alloc(16, this.sender);
    const answer = await this.checkpoint(source, { epoch, senderId });
    this.epoch = epoch;
    return answer;
  }

  context(fields: Partial<StreamContext> = {}): StreamContext {
    return {
      streamId: this.stream,
      checkpointOwner: CheckpointOwner.CHECKPOINT_OWNER_SINK,
      epoch: this.epoch,
      senderId: Buffer.alloc(16, this.sender),
      sequence: 0n,
      instanceId: this.instanceId,
      ...fields,
    };
  }

  /** One transaction that ends at the next position. */
  send(relations: Relation[], ...changes: Change[]): Promise<pb.HandleTransactionResponse> {
    this.end += 10n;
    const one = transaction(this.end, ...changes);
    const request = { context: this.context(), checkpointLsn: this.end, relations };
    return this.call("handleTransaction", { ...request, transaction: one });
  }

  batch(relations: Relation[], transactions: Transaction[], fields = {}) {
    const checkpointLsn = transactions.at(-1)?.endLsn;
    const request = { context: this.context(), checkpointLsn, relations, transactions, ...fields };
    return this.call<{}, pb.HandleBatchResponse>("handleBatch", request);
  }

  snapshot = (unit: SnapshotUnit, fields = {}) =>
    this.call("handleSnapshot", { context: this.context(), unit, ...fields });

  token = async () =>
    (
      await this.call<{}, pb.SnapshotProgressResponse>("snapshotProgress", {
        streamId: this.stream,
        source: SOURCE,
      })
    ).progressToken;

  frames(end: number, relations: Relation[], ...changes: Change[]): Frame[] {
    const [endLsn, context] = [BigInt(end), this.context()];
    const begin = { context, xid: 7, commitLsn: endLsn - 1n, commitTime: undefined, origin: "" };
    return [
      { $case: "begin", value: begin },
      ...relations.map((value) => ({ $case: "relation" as const, value })),
      ...changes.map((change, i) => ({
        $case: "changes" as const,
        value: { firstChangeIndex: BigInt(i), changes: [change] },
      })),
      {
        $case: "commit",
        value: { endLsn, checkpointLsn: endLsn, changeCount: BigInt(changes.length) },
      },
    ];
  }

  /** The stream, open: write frames, then end or cancel it; done is its answer. */
  open() {
    let call!: ReturnType<pb.SinkServiceClient["handleLargeTransaction"]>;
    const done = new Promise<pb.HandleLargeTransactionResponse>((ok, failed) => {
      call = this.stub.handleLargeTransaction((error, answer) =>
        error ? failed(error) : ok(answer),
      );
      call.on("error", () => {}); // a refused stream cannot be written on
    });
    return { call, done };
  }

  large(frames: Frame[]) {
    const { call, done } = this.open();
    for (const frame of frames) call.write({ frame });
    call.end();
    return done;
  }

  /** What another process sees: the rows as texts, columns in the order of their names. */
  rows(table: string): (string | null)[][] | undefined {
    const found = opened(this.path, tables).find((one) => one.table === table);
    return found?.rows.map((values) => values.map((value) => value && value.toString()));
  }
}

/** The call must fail with this reason and code, and must not say values. */
export async function refused(
  call: Promise<unknown>,
  reason: string,
  code = status.FAILED_PRECONDITION,
) {
  const error = (await call.then(
    () => assert.fail("it was accepted"),
    (error) => error,
  )) as ServiceError;
  assert.equal(error.code, code, error.message);
  assert.deepEqual(error.metadata.get("sink-reason"), reason ? [reason] : []);
  assert.doesNotMatch(error.details, new RegExp(SECRET));
}

export function folder(t: TestContext) {
  const path = mkdtempSync(join(tmpdir(), "sink-"));
  t.after(() => rmSync(path, { recursive: true }));
  return path;
}

/** A real server on a unix socket with an empty file, and who makes clients of it. */
export async function served(t: TestContext) {
  const home = folder(t);
  const [listen, path] = [`unix:${home}/sink.sock`, `${home}/mirror.db`];
  const sink = new SqliteSink(path);
  const server = await serve(listen, sink.calls);
  t.after(() => (server.forceShutdown(), sink.store.db.close()));
  return {
    sink,
    connect(sender = "s", stream = "orders") {
      const client = new Client(listen, path, sender, stream);
      t.after(() => client.stub.close());
      return client;
    },
  };
}

/** A sidecar that has claimed its stream. */
export async function claimed(t: TestContext) {
  const client = (await served(t)).connect();
  await client.claim(1n);
  return client;
}
