/**
 * Who may write, and how far we are: one row per stream, beside the rows that it speaks of.
 *
 * Whatever your store is, this part stays as it is here: the claim, the two tests before the
 * first write, and the position that commits together with the rows.
 */

import { randomBytes } from "node:crypto";
import { DatabaseSync, type Database } from "./sqlite.js";
import { status } from "@grpc/grpc-js";
import { broken, Refused, refused } from "./errors.js";
import { Fence, NO_POSITION } from "./fence.js";
import type { CheckpointRequest, CheckpointResponse } from "./gen/sink/v1/sink.js";
import { CheckpointOwner, type SourceIdentity, type StreamContext } from "./gen/sink/v1/types.js";

// LSNs and epochs use all 64 bits, which an INTEGER of SQLite has not: they are text.
const STREAMS = `CREATE TABLE IF NOT EXISTS _replicant_streams (
  stream_id TEXT PRIMARY KEY, system_identifier TEXT, database TEXT, lineage BLOB,
  epoch TEXT, sender_id BLOB, position TEXT, resume_state BLOB)`;
const CLAIM = `INSERT INTO _replicant_streams VALUES (?, ?, ?, ?, ?, ?, NULL, NULL)
  ON CONFLICT DO UPDATE SET epoch = excluded.epoch, sender_id = excluded.sender_id`;
const ADVANCE = `UPDATE _replicant_streams
  SET position = ?, resume_state = coalesce(?, resume_state) WHERE stream_id = ?`;

interface StreamRow {
  system_identifier: string;
  database: string;
  lineage: Uint8Array;
  epoch: string;
  sender_id: Uint8Array;
  position: string | null;
  resume_state: Uint8Array | null;
}

/** What every writing call says of itself. */
export interface Unit {
  context: StreamContext | undefined;
  expectedCheckpoint?: bigint | undefined;
}

/** What a call that moves the position says. */
export interface Step {
  checkpointLsn?: bigint | undefined;
  resumeState?: Uint8Array | undefined;
}

/** The SQLite file: one connection that writes, one queue before its transactions. */
export class Store {
  readonly db: Database;
  readonly fence = new Fence();
  /** Another one means: what you remember of the file's tables may be wrong. */
  version = 0;
  private seen: unknown;
  private last: Promise<unknown> = Promise.resolve();

  constructor(private readonly path: string) {
    this.db = this.connect();
    this.db.exec("PRAGMA journal_mode = WAL");
    this.db.exec("PRAGMA synchronous = FULL"); // a commit is on the disk when it returns
    this.db.exec(STREAMS);
  }

  /** Waiting for a lock holds up this whole process, so it is short: the sidecar asks again. */
  private connect() {
    return new DatabaseSync(this.path, { timeout: 1000 });
  }

  /** One writer at a time; what work has not committed at its end never was. */
  transaction<T>(work: () => T | Promise<T>): Promise<T> {
    const turn = this.last.then(() => this.alone(work));
    this.last = turn.catch(() => {});
    return turn;
  }

  private async alone<T>(work: () => T | Promise<T>): Promise<T> {
    try {
      this.db.exec("BEGIN IMMEDIATE");
    } catch (error: any) {
      const busy = [5, 6].includes(error.errcode & 255);
      if (!busy) throw error; // a file that is read-only or gone does not mend itself
      throw new Refused(status.UNAVAILABLE, "NOT_READY", "the SQLite file is locked");
    }
    try {
      const { data_version } = this.db.prepare("PRAGMA data_version").get() as any;
      if (data_version !== this.seen) this.version++; // another process wrote
      this.seen = data_version;
      return await work();
    } finally {
      if (this.db.isTransaction) {
        this.version++;
        this.db.exec("ROLLBACK");
      }
    }
  }

  /** Reads on a connection of its own: waits for no writer and creates nothing. */
  read<T>(work: (db: Database) => T): T {
    const db = this.connect();
    try {
      return work(db);
    } finally {
      db.close();
    }
  }

  /** Takes the stream over: by a higher epoch, or again by who has this one. */
  claim(request: CheckpointRequest): Promise<CheckpointResponse> {
    return this.transaction(() => {
      const { claim, streamId } = request;
      const row = bound(this.db, request);
      const epoch = BigInt(row?.epoch ?? 0);
      if (claim!.epoch > epoch) {
        const { systemIdentifier, database } = request.source!;
        const source = [streamId, systemIdentifier, database, randomBytes(16)];
        this.db.prepare(CLAIM).run(...source, String(claim!.epoch), claim!.senderId);
      } else if (!row || claim!.epoch !== epoch || !claim!.senderId.equals(row.sender_id)) {
        throw refused("FENCED", "another epoch rules");
      }
      const stored = find(this.db, streamId);
      this.db.exec("COMMIT");
      return answer(stored);
    });
  }

  /** May this call write? Tested inside the transaction that writes. The position. */
  admit({ context: call, expectedCheckpoint }: Unit): bigint {
    if (call?.checkpointOwner === CheckpointOwner.CHECKPOINT_OWNER_SIDECAR)
      return this.fence.admit(call);
    if (call?.checkpointOwner !== CheckpointOwner.CHECKPOINT_OWNER_SINK)
      throw broken("who keeps the checkpoint?");
    const row = find(this.db, call.streamId);
    if (row && call.epoch < BigInt(row.epoch)) throw refused("FENCED", "another epoch rules");
    if (!row || call.epoch > BigInt(row.epoch))
      throw refused("CHECKPOINT_BEHIND", "this claim is not stored here");
    const position = BigInt(row.position ?? 0);
    if (expectedCheckpoint !== undefined && (!position || expectedCheckpoint > position))
      throw refused("CHECKPOINT_BEHIND", "what lies between was never stored here");
    return position;
  }

  /** Rows and position together: the position that we are told, and never a lower one. */
  commit(call: StreamContext, step: Step, end: bigint, position: bigint) {
    const told = step.checkpointLsn ?? 0n;
    if (position !== NO_POSITION) {
      if (told === 0n || told < end)
        throw broken("checkpoint_lsn is missing, or below the transaction's end");
      if (told > position)
        this.db.prepare(ADVANCE).run(String(told), step.resumeState ?? null, call.streamId);
    }
    this.db.exec("COMMIT");
  }
}

function find(db: Database, streamId: string) {
  const query = db.prepare("SELECT * FROM _replicant_streams WHERE stream_id = ?");
  return query.get(streamId) as StreamRow | undefined;
}

/** The row of a stream, which belongs to one system and one database for ever. */
export function bound(db: Database, told: { streamId: string; source?: SourceIdentity }) {
  const row = find(db, told.streamId);
  if (!told.source) throw broken("which source?");
  const { systemIdentifier, database } = told.source;
  if (row && (row.system_identifier !== systemIdentifier || row.database !== database))
    throw refused("SOURCE_MISMATCH", "this stream belongs to another source");
  return row;
}

/** What is stored. A position that is absent stays absent: 0 would be another thing. */
export function answer(row: StreamRow | undefined): CheckpointResponse {
  return {
    position: row?.position == null ? undefined : BigInt(row.position),
    epoch: BigInt(row?.epoch ?? 0),
    lineage: Buffer.from(row?.lineage ?? []),
    resumeState: row?.resume_state == null ? undefined : Buffer.from(row.resume_state),
  };
}
