/**
 * A sink in TypeScript: mirrors Postgres tables into SQLite, each transaction exactly once.
 *
 * Rows and checkpoint are stored in one SQLite transaction, so after any crash they agree. This
 * file has the calls; checkpoint.ts says who may write and how far we are; mirror.ts is what this
 * sink makes of the rows; server.ts is where it listens.
 */

import { fileURLToPath } from "node:url";
import { broken, stream, unary } from "./errors.js";
import { answer, bound, Store, type Step, type Unit } from "./checkpoint.js";
import * as pb from "./gen/sink/v1/sink.js";
import {
  Capability,
  Fencing,
  SinkKind,
  type Relation,
  type Transaction,
} from "./gen/sink/v1/types.js";
import { Messages } from "./message.js";
import { Counts, Mirror } from "./mirror.js";
import { Progress, token } from "./progress.js";
import { run } from "./server.js";

export class SqliteSink {
  readonly store: Store;
  private readonly mirror: Mirror;
  private readonly messages: Messages;
  private readonly progress: Progress;

  constructor(path: string) {
    this.store = new Store(path);
    this.mirror = new Mirror(this.store);
    this.messages = new Messages(this.store.db);
    this.progress = new Progress(this.store.db);
  }

  /** What a server serves. What is not here answers UNIMPLEMENTED, and is not advertised. */
  readonly calls = {
    getCapabilities: unary("GetCapabilities", (_: pb.GetCapabilitiesRequest) =>
      this.capabilities(),
    ),
    checkpoint: unary("Checkpoint", (request: pb.CheckpointRequest) =>
      request.claim
        ? this.store.claim(request)
        : this.store.read((db) => answer(bound(db, request))),
    ),
    handleTransaction: unary("HandleTransaction", (request: pb.HandleTransactionRequest) =>
      this.handle(request, request.transaction ? [request.transaction] : []),
    ),
    handleBatch: unary("HandleBatch", (request: pb.HandleBatchRequest) =>
      this.handle(request, request.transactions),
    ),
    handleLargeTransaction: stream(
      "HandleLargeTransaction",
      (frames: AsyncIterator<pb.HandleLargeTransactionRequest>) => this.handleLarge(frames),
    ),
    handleMessage: unary("HandleMessage", (request: pb.HandleMessageRequest) =>
      this.handleMessage(request),
    ),
    handleSnapshot: unary("HandleSnapshot", (request: pb.HandleSnapshotRequest) =>
      this.handleSnapshot(request),
    ),
    handleSnapshotComplete: unary(
      "HandleSnapshotComplete",
      (request: pb.HandleSnapshotCompleteRequest) => this.handle({ ...request, relations: [] }, []),
    ),
    snapshotProgress: unary("SnapshotProgress", (request: pb.SnapshotProgressRequest) =>
      this.store.read((db) => {
        bound(db, request);
        return { progressToken: token(db, request.streamId) };
      }),
    ),
  };

  private capabilities(): pb.GetCapabilitiesResponse {
    return {
      protocolMinor: 0,
      sinkName: "typescript-sqlite-mirror",
      sinkVersion: "1.0",
      instanceId: this.store.fence.instanceId,
      sinkKind: SinkKind.SINK_KIND_STATE_MIRROR,
      fencing: [Fencing.FENCING_STORED, Fencing.FENCING_INSTANCE],
      capabilities: [
        Capability.CAPABILITY_CHECKPOINT,
        Capability.CAPABILITY_TRANSACTION,
        Capability.CAPABILITY_BATCH,
        Capability.CAPABILITY_LARGE_TRANSACTION,
        Capability.CAPABILITY_MESSAGE,
        Capability.CAPABILITY_RESUME_STATE,
        Capability.CAPABILITY_SNAPSHOT,
        Capability.CAPABILITY_SNAPSHOT_COMPLETE,
        Capability.CAPABILITY_SNAPSHOT_PROGRESS,
      ],
      limits: {
        maxRequestBytes: 32n << 20n,
        preferredRequestBytes: 1n << 20n,
        maxTransactionsPerBatch: 10_000,
        maxCallDuration: undefined,
      },
    };
  }

  /** All of the unit or nothing. Without a transaction it is an idle step. */
  private handle(request: Unit & Step & { relations: Relation[] }, transactions: Transaction[]) {
    return this.store.transaction(() => {
      const counts = new Counts();
      const position = this.store.admit(request);
      const context = request.context!;
      const generation = this.progress.generation(context.streamId);
      let end = 0n;
      for (const { changes, commitLsn, endLsn } of transactions) {
        if (endLsn <= end) throw broken("end_lsn does not rise");
        end = endLsn;
        if (end <= position) {
          counts.replayedTransactions++;
        } else {
          this.mirror.apply(request.relations, changes, generation, counts);
          this.messages.among(context.streamId, commitLsn, changes);
        }
      }
      this.store.commit(context, request, end, position);
      return { checkpointLsn: request.checkpointLsn, counts };
    });
  }

  /**
   * One transaction in many frames, applied as they come and committed by the last. Nobody is
   * held up before the first one is here.
   */
  private async handleLarge(frames: AsyncIterator<pb.HandleLargeTransactionRequest>) {
    const next = async () => {
      const { done, value } = await frames.next();
      return done ? undefined : value.frame;
    };
    const begin = await next();
    if (begin?.$case !== "begin") throw broken("the first frame is not begin");
    return this.store.transaction(async () => {
      const position = this.store.admit(begin.value); // holds to the end: nobody else can write now
      const context = begin.value.context!;
      const generation = this.progress.generation(context.streamId);
      const relations: Relation[] = [];
      let counts = new Counts();
      let changes = 0n;
      let frame = await next();
      for (; frame; frame = await next()) {
        if (frame.$case === "relation") {
          relations.push(frame.value);
        } else if (frame.$case === "changes" && frame.value.firstChangeIndex === changes) {
          this.mirror.apply(relations, frame.value.changes, generation, counts);
          const { commitLsn } = begin.value;
          this.messages.among(context.streamId, commitLsn, frame.value.changes, changes);
          changes += BigInt(frame.value.changes.length);
        } else break;
      }
      const end = frame?.$case === "commit" ? frame.value : undefined;
      if (end?.changeCount !== changes || !(await frames.next()).done)
        throw broken("a frame is missing, unknown or out of order");
      if (end.endLsn > position) {
        this.store.commit(context, end, end.endLsn, position);
      } else {
        // We have it: what these frames did is rolled back.
        counts = Object.assign(new Counts(), { replayedTransactions: 1n });
      }
      return { checkpointLsn: end.checkpointLsn, counts };
    });
  }

  /** A message outside of any transaction: stored with its LSN as the position. */
  private handleMessage({ message, ...request }: pb.HandleMessageRequest) {
    return this.store.transaction(() => {
      const position = this.store.admit(request);
      const context = request.context!;
      if (!message) throw broken("no message");
      if (message.lsn > position) this.messages.keep(context.streamId, message.lsn, 0n, message);
      this.store.commit(context, request, message.lsn, position);
      return { checkpointLsn: request.checkpointLsn };
    });
  }

  /** Rows, flags and note of one unit, in one transaction. It moves no position. */
  private handleSnapshot({ unit, ...request }: pb.HandleSnapshotRequest) {
    return this.store.transaction(() => {
      this.store.admit(request);
      if (!unit) throw broken("no unit");
      this.mirror.copy(unit);
      this.progress.note(request.context!.streamId, unit.generation, unit.progressToken);
      this.store.db.exec("COMMIT");
      return { counts: undefined };
    });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await run((path) => new SqliteSink(path));
