"""Where the sidecar keeps the checkpoint: who may write is remembered in memory.

There is no position here to compare with, so nothing is skipped, and a transaction may come
again after a fault: what you do with it must bear that. The memory keeps out what a replaced
sidecar still sends, and a call that was late on its way and was repeated meanwhile.
"""

import os

from errors import refused

NO_POSITION = -1  # all that comes lies above it


class Fence:
    def __init__(self):
        self.instance_id = os.urandom(16)  # another process has another memory
        self.highest = {}

    def admit(self, call):
        """May this call write? Asked while no other call can run; the answer is remembered."""
        epoch, sequence = self.highest.get(call.stream_id, (0, 0))
        if call.instance_id != self.instance_id:
            raise refused("INSTANCE_CHANGED", "this is another process than the call was for")
        if call.epoch < epoch:
            raise refused("FENCED", "another epoch rules")
        if call.epoch == epoch and call.sequence <= sequence:
            raise refused("STALE_DELIVERY", "a newer call was here before this one")
        self.highest[call.stream_id] = (call.epoch, call.sequence)
        return NO_POSITION
