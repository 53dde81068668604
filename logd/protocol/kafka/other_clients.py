"""Clients that are wrong on a port for today's Kafka: those of Kafka 0.7, and logd's own.

Their requests have the numbers of Kafka's with other content. A frame that is no request of Kafka's is one of theirs if
it is, to the last byte, a request of theirs.
"""

from __future__ import annotations

from logd.errors import ProtocolViolation
from logd.protocol.conversation.foreign import ForeignClient
from logd.protocol.requests.apis import LEGACY_BY_NUMBER
from logd.protocol.requests.requests import Unsupported, decode_legacy_request, decode_native_request


def other_client(frame: bytes | memoryview, start: int, stop: int, native: str) -> ForeignClient | None:
    """Return the client that sent the first frame of a connection, None if it is neither of 0.7 nor logd's own.

    ``native`` is the address of the port for such clients, empty if it is not known.
    """
    number = int.from_bytes(frame[start : start + 2], "big")
    try:
        if number in LEGACY_BY_NUMBER:
            decode_legacy_request(frame, start, stop)
            kind, called = "Kafka 0.7", "a client of Kafka 0.7"
        elif isinstance(decode_native_request(frame, start, stop), Unsupported):
            return None
        else:
            kind, called = "logd", "a client of logd"
    except ProtocolViolation:
        return None
    return ForeignClient(
        kind,
        f"{called} called, and this port speaks the protocol of Kafka 0.8 and later; have it connect to the port of "
        f"the setting listen{f', at {native}' if native else ''}",
    )
