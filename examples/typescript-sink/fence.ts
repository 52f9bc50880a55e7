/**
 * Where the sidecar keeps the checkpoint: who may write is remembered in memory.
 *
 * There is no position here to compare with, so nothing is skipped, and a transaction may come
 * again after a fault: what you do with it must bear that. The memory keeps out what a replaced
 * sidecar still sends, and a call that was late on its way and was repeated meanwhile.
 */

import { randomBytes } from "node:crypto";
import { refused } from "./errors.js";
import type { StreamContext } from "./gen/sink/v1/types.js";

export const NO_POSITION = -1n; // all that comes lies above it

export class Fence {
  readonly instanceId = randomBytes(16); // another process has another memory
  private readonly highest = new Map<string, { epoch: bigint; sequence: bigint }>();

  /** May this call write? Asked while no other call can run; the answer is remembered. */
  admit(call: StreamContext): bigint {
    const { epoch, sequence } = this.highest.get(call.streamId) ?? { epoch: 0n, sequence: 0n };
    if (!this.instanceId.equals(call.instanceId))
      throw refused("INSTANCE_CHANGED", "this is another process than the call was for");
    if (call.epoch < epoch) throw refused("FENCED", "another epoch rules");
    if (call.epoch === epoch && call.sequence <= sequence)
      throw refused("STALE_DELIVERY", "a newer call was here before this one");
    this.highest.set(call.streamId, { epoch: call.epoch, sequence: call.sequence });
    return NO_POSITION;
  }
}
