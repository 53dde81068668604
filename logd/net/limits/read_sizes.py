"""The most bytes of one read of a socket: all its requests are found in one turn of the reactor."""

from __future__ import annotations

from logd.net.limits.traffic_quotas import SMALL_BYTES, ConnectionMeter

#: The most in any case. Twisted's 64 KiB would mean four times the calls for a busy producer.
READ_BYTES = 256 << 10
#: The size of a first read, and of one behind a read of requests that were smaller than TINY_BYTES on average: to find
#: the end of each takes 2 us.
FEW_BYTES = 64 << 10
TINY_BYTES = 64


def read_size(meter: ConnectionMeter | None, size: int = 0, requests: int = 0) -> int:
    """Return the most bytes of the next read behind one of ``size`` bytes that brought so many requests."""
    if meter is not None and meter.in_debt:
        return SMALL_BYTES  # what is read is used at once
    return FEW_BYTES if requests * TINY_BYTES >= size else READ_BYTES
