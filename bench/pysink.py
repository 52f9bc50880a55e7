"""A sink for measuring: looks at every value, keeps its checkpoint in memory, stores nothing."""

import os
import sys
from concurrent import futures
from pathlib import Path

import grpc

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "python-sink"
sys.path.insert(0, str(EXAMPLE / "gen"))
from sink.v1 import sink_pb2, sink_pb2_grpc, types_pb2  # noqa: E402


class NullSink(sink_pb2_grpc.SinkServiceServicer):
    def __init__(self):
        high, low = os.environ["BENCH_END"].split("/")
        self.end = int(high, 16) << 32 | int(low, 16)
        self.position, self.epoch, self.bytes = 0, 0, 0

    def GetCapabilities(self, request, context):
        return sink_pb2.GetCapabilitiesResponse(
            sink_name="null-python",
            sink_version="1",
            instance_id=b"bench",
            sink_kind=types_pb2.SINK_KIND_STATE_MIRROR,
            fencing=[types_pb2.FENCING_STORED],
            capabilities=[
                types_pb2.CAPABILITY_CHECKPOINT,
                types_pb2.CAPABILITY_BATCH,
                types_pb2.CAPABILITY_LARGE_TRANSACTION,
            ],
            limits=types_pb2.Limits(max_request_bytes=8 << 20, preferred_request_bytes=1 << 20),
        )

    def Checkpoint(self, request, context):
        if request.HasField("claim"):
            self.epoch = request.claim.epoch
        answer = sink_pb2.CheckpointResponse(epoch=self.epoch)
        if self.position:
            answer.position = self.position
        return answer

    def HandleBatch(self, request, context):
        for transaction in request.transactions:
            self.walk(transaction.changes)
        return sink_pb2.HandleBatchResponse(checkpoint_lsn=self.store(request.checkpoint_lsn))

    def HandleLargeTransaction(self, frames, context):
        end = 0
        for frame in frames:
            self.walk(frame.changes.changes)
            end = frame.commit.checkpoint_lsn or end
        return sink_pb2.HandleLargeTransactionResponse(checkpoint_lsn=self.store(end))

    def walk(self, changes):
        size = 0
        for change in changes:
            row = change.new_row
            for kind, value in zip(row.kinds, row.values, strict=True):
                if kind == "t":
                    size += len(value)
        self.bytes += size

    def store(self, position):
        if self.position < self.end <= position:
            print("done", flush=True)
        self.position = max(self.position, position)
        return position


def main():
    options = [("grpc.max_receive_message_length", 64 << 20)]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2), options=options)
    sink_pb2_grpc.add_SinkServiceServicer_to_server(NullSink(), server)
    server.add_insecure_port(os.environ["REPLICANT_SINK_LISTEN"])
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
