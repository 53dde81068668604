"""Writes that do not wait for the reactor: what a transport holds is given to its socket in the same turn.

Twisted writes to a socket in the turn after ``write``, once it has found it writable. For a lone request, or its
answer, that turn is a good part of the cost, and it adds to the time until the answer.
"""

from __future__ import annotations

from typing import Any

from logd.net.transfer import can_sendfile


def can_write_now(transport: Any) -> bool:
    """Return whether ``write_now`` may be used with the transport: a plain socket of Twisted's."""
    return can_sendfile(transport) and callable(getattr(transport, "doWrite", None))


def write_now(transport: Any) -> None:
    """Give the socket what was written to the transport. The reactor goes on with what the socket does not take.

    A streaming producer's ``resumeProducing`` may be called within.
    """
    if transport.doWrite() is not None:
        transport.startWriting()  # an error, or the end of a connection that closes: the reactor meets it again
