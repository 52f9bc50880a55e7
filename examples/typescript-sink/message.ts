/**
 * Messages of pg_logical_emit_message: one row each, stored with the position as rows are.
 *
 * One that was written outside of a transaction is a unit of its own, and its LSN is its position.
 * Those inside of a transaction stand among the changes of it, each at its ordinal.
 */

import type { Database } from "./sqlite.js";
import { broken } from "./errors.js";
import { ChangeOp, type Change, type LogicalMessage } from "./gen/sink/v1/types.js";

// The bytes as they were sent; an LSN uses all 64 bits and is text.
const MESSAGES = `CREATE TABLE IF NOT EXISTS _replicant_messages (
  stream_id TEXT, commit_lsn TEXT, ordinal INTEGER, prefix BLOB, content BLOB)`;
const KEEP = "INSERT INTO _replicant_messages VALUES (?, ?, ?, ?, ?)";

/** Writes inside the SQLite transaction that its caller holds open. */
export class Messages {
  constructor(private readonly db: Database) {
    db.exec(MESSAGES);
  }

  keep(streamId: string, commitLsn: bigint, ordinal: bigint, message: LogicalMessage) {
    const { prefix, content } = message;
    this.db.prepare(KEEP).run(streamId, String(commitLsn), ordinal, prefix, content);
  }

  /** Those among the changes of a transaction, or of a part of it that begins at first. */
  among(streamId: string, commitLsn: bigint, changes: Change[], first = 0n) {
    changes.forEach(({ op, message }, i) => {
      if (op !== ChangeOp.CHANGE_OP_MESSAGE) return;
      if (!message) throw broken("a message of nothing");
      this.keep(streamId, commitLsn, first + BigInt(i), message);
    });
  }
}
