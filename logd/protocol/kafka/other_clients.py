"""Clients that are wrong on a port for today's Kafka: those of Kafka 0.7, and logd's own; and on that of the tree.

Their requests have the numbers of Kafka's with other content. A frame that is no request of Kafka's is one of theirs if
it is, to the last byte, a request of theirs.
"""

from __future__ import annotations

from logd.errors import ProtocolViolation
from logd.protocol.conversation.foreign import ForeignClient, kafka_call
from logd.protocol.requests.apis import LEGACY_BY_NUMBER
from logd.protocol.requests.requests import Unsupported, decode_legacy_request, decode_native_request


def other_client(frame: bytes | memoryview, start: int, stop: int, native: str) -> ForeignClient | None:
    """Return the client that sent the first frame of a connection, None if it is neither of 0.7 nor logd's own.

    ``native`` is the address of the port for such clients, empty if it is not known.
    """
    kind = _kind_of(frame, start, stop)
    if kind is None:
        return None
    return ForeignClient(
        kind,
        f"a client of {kind} called, and this port speaks the protocol of Kafka 0.8 and later; have it connect to the "
        f"port of the setting listen{f', at {native}' if native else ''}",
    )


def client_at_tree(frame: bytes | memoryview, start: int, stop: int) -> ForeignClient | None:
    """Return the client of brokers that sent an invalid first frame to the coordination tree, None for any other."""
    called = kafka_call(frame, start, stop)
    kind = _kind_of(frame, start, stop) if called is None else "Kafka"
    if kind is None:
        return None
    return ForeignClient(
        kind,
        (f"a client of {kind} called" if called is None else f"a client of Kafka 0.8 or later called ({called})")
        + ", and this port serves the coordination tree; have it connect to a broker, at the address of the setting "
        + ("listen" if called is None else "kafka.listen"),
    )


def _kind_of(frame: bytes | memoryview, start: int, stop: int) -> str | None:
    """Return the kind of client whose request fills the frame, None if it is neither of 0.7 nor logd's own."""
    number = int.from_bytes(frame[start : start + 2], "big")
    try:
        if number in LEGACY_BY_NUMBER:
            decode_legacy_request(frame, start, stop)
            return "Kafka 0.7"
        return None if isinstance(decode_native_request(frame, start, stop), Unsupported) else "logd"
    except ProtocolViolation:
        return None
