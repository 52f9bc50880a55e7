/** How a call is refused: a code, perhaps a reason of the contract, and a text without values. */

import {
  Metadata,
  status,
  type sendUnaryData,
  type ServerReadableStream,
  type ServerUnaryCall,
} from "@grpc/grpc-js";

export class Refused extends Error {
  constructor(
    readonly code: status,
    readonly reason: string,
    text: string,
  ) {
    super(text);
  }
}

/** The sidecar halts, or does what the reason asks for. */
export const refused = (reason: string, text: string) =>
  new Refused(status.FAILED_PRECONDITION, reason, text);

/** The request breaks the contract. */
export const broken = (text: string) => new Refused(status.INVALID_ARGUMENT, "", text);

const CONSTRAINT = 19; // SQLITE_CONSTRAINT, the low byte of its kinds

/** What a call threw, without a driver's text: that may hold values. */
function fault(error: any): Refused {
  if (error instanceof Refused) return error;
  if (error?.code === "ERR_SQLITE_ERROR" && (error.errcode & 255) === CONSTRAINT)
    return refused("UNIT_REJECTED", "a constraint of the SQLite file forbids this unit");
  if (error?.code === "ERR_STREAM_PREMATURE_CLOSE")
    return new Refused(status.CANCELLED, "", "the call ended before it was complete");
  const where = String(error?.stack).match(/^ {4}at .*/gm) ?? []; // and not what: no values
  console.error(where.join("\n"));
  return new Refused(status.INTERNAL, "", error?.name ?? "unknown");
}

/** A gRPC handler that makes a status of what the call throws. */
function guarded<Call, Answer>(name: string, call: (incoming: Call) => Answer | Promise<Answer>) {
  return async (incoming: Call, answer: sendUnaryData<Answer>) => {
    try {
      answer(null, await call(incoming));
    } catch (error) {
      const { code, reason, message } = fault(error);
      console.error(name, status[code], reason, message);
      const metadata = new Metadata();
      if (reason) metadata.set("sink-reason", reason);
      answer({ code, details: message, metadata });
    }
  };
}

export const unary = <Q, A>(name: string, call: (request: Q) => A | Promise<A>) =>
  guarded(name, (incoming: ServerUnaryCall<Q, A>) => call(incoming.request));

export const stream = <Q, A>(name: string, call: (frames: AsyncIterator<Q>) => Promise<A>) =>
  guarded(name, (incoming: ServerReadableStream<Q, A>) => call(incoming[Symbol.asyncIterator]()));
