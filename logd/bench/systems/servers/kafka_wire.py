"""The first thing that a client of Kafka asks, to see when a broker serves."""

from __future__ import annotations

import socket
from struct import Struct

#: ApiVersions version 0 with correlation id 7 and no client id, behind its size.
_QUESTION = Struct(">ihhih").pack(10, 18, 0, 7, -1)
_HEAD = Struct(">iih")
#: Seconds for connecting, and for the answer.
_PATIENCE_SECONDS = 5.0


def answers_kafka(port: int) -> bool:
    """Return whether a broker at this port of loopback answers a request of Kafka's protocol without an error."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_SECONDS) as connection:
            connection.sendall(_QUESTION)
            head = connection.recv(_HEAD.size, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(head) == _HEAD.size and _HEAD.unpack(head)[1:] == (7, 0)
