/**
 * Where a sink listens, and how it ends.
 *
 *     REPLICANT_SINK_LISTEN   unix:/path or host:port     default unix:replicant-sink.sock
 *     REPLICANT_SINK_DB       path of the SQLite file     default replicant-sink.db
 */

import { rmSync } from "node:fs";
import { connect } from "node:net";
import { Server, ServerCredentials, type UntypedServiceImplementation } from "@grpc/grpc-js";
import { SinkServiceService } from "./gen/sink/v1/sink.js";

export async function serve(listen: string, calls: UntypedServiceImplementation) {
  const server = new Server({
    "grpc.max_receive_message_length": 64 << 20,
    "grpc.keepalive_time_ms": 15_000, // we ask whether the sidecar lives: one that hangs must not
    "grpc.keepalive_timeout_ms": 15_000, // hold a transaction open for long
    "grpc.so_reuseport": 0,
  });
  server.addService(SinkServiceService, calls);
  if (listen.startsWith("unix:")) await clear(listen.slice("unix:".length));
  await new Promise<void>((done, failed) => {
    const bound = (error: Error | null) => (error ? failed(error) : done());
    server.bindAsync(listen, ServerCredentials.createInsecure(), bound);
  });
  return server;
}

/** Removes the socket that a killed process left behind: one that nobody answers on. */
function clear(path: string) {
  return new Promise<void>((done) => {
    const probe = connect(path);
    probe.once("connect", () => (probe.destroy(), done())); // in use: listening will say so
    probe.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ECONNREFUSED") rmSync(path, { force: true });
      done();
    });
  });
}

/** Serves until a signal, then lets the call in flight end. */
export async function run(open: (path: string) => { calls: UntypedServiceImplementation }) {
  const listen = process.env.REPLICANT_SINK_LISTEN ?? "unix:replicant-sink.sock";
  const path = process.env.REPLICANT_SINK_DB ?? "replicant-sink.db";
  process.umask(0o077); // socket and rows are for this user alone
  const server = await serve(listen, open(path).calls);
  const stop = () => {
    setTimeout(() => server.forceShutdown(), 10_000).unref();
    server.tryShutdown(() => process.exit(0));
  };
  process.on("SIGTERM", stop).on("SIGINT", stop);
  console.error(`listening on ${listen}, storing in ${path}`);
}
