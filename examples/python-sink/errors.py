"""How a call is refused: a code, perhaps a reason of the contract, and a text without values."""

import functools
import sqlite3
import sys
import traceback

import grpc


class Refused(Exception):
    def __init__(self, code, reason, text):
        super().__init__(code, reason, text)
        self.code, self.reason, self.text = code, reason, text


def refused(reason, text):
    """The sidecar halts, or does what the reason asks for."""
    return Refused(grpc.StatusCode.FAILED_PRECONDITION, reason, text)


def broken(text):
    """The request breaks the contract."""
    return Refused(grpc.StatusCode.INVALID_ARGUMENT, "", text)


def guarded(call):
    """Makes a status of what a call raises, without a driver's text: that may hold values."""

    @functools.wraps(call)
    def answer(self, request, context):
        try:
            return call(self, request, context)
        except Refused as refusal:
            fault = refusal
        except sqlite3.IntegrityError:
            fault = refused("UNIT_REJECTED", "a constraint of the SQLite file forbids this unit")
        except grpc.RpcError:
            fault = Refused(grpc.StatusCode.CANCELLED, "", "the call ended before it was complete")
        except Exception as error:
            traceback.print_tb(error.__traceback__)  # where, and not what: no values
            fault = Refused(grpc.StatusCode.INTERNAL, "", type(error).__name__)
        print(call.__name__, fault.code.name, fault.reason, fault.text, file=sys.stderr, flush=True)
        if fault.reason:
            context.set_trailing_metadata((("sink-reason", fault.reason),))
        return context.abort(fault.code, fault.text)

    return answer
