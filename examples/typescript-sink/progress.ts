/**
 * How far a snapshot is: the sidecar's own note, which we keep with the rows and do not read,
 * and the number of the run, by which rows that it did not touch are known at its end.
 */

import type { Database } from "./sqlite.js";

const RUNS = `CREATE TABLE IF NOT EXISTS _replicant_runs (
  stream_id TEXT PRIMARY KEY, generation TEXT, progress_token BLOB)`;
const NOTE = `INSERT INTO _replicant_runs VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET
  generation = excluded.generation, progress_token = coalesce(excluded.progress_token, progress_token)`;

export class Progress {
  constructor(private readonly db: Database) {
    db.exec(RUNS);
  }

  /** The run under way, or the last one: 0 where there never was any. */
  generation(streamId: string): bigint {
    return BigInt(find(this.db, streamId)?.generation ?? 0);
  }

  /** Inside the transaction of the rows. A token that is absent keeps the stored one. */
  note(streamId: string, generation: bigint, token: Uint8Array | undefined) {
    this.db.prepare(NOTE).run(streamId, String(generation), token ?? null);
  }
}

/** The token, bit by bit; undefined only if there never was one. */
export function token(db: Database, streamId: string): Buffer | undefined {
  const stored = find(db, streamId)?.progress_token;
  return stored == null ? undefined : Buffer.from(stored);
}

function find(db: Database, streamId: string) {
  const query = db.prepare("SELECT * FROM _replicant_runs WHERE stream_id = ?");
  return query.get(streamId) as
    { generation: string; progress_token: Uint8Array | null } | undefined;
}
