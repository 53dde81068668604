"""The most bytes of one read of a socket: all its requests are found in one turn of the reactor."""

from __future__ import annotations

from logd.net.limits.traffic_quotas import SMALL_BYTES, ConnectionMeter

#: The most in any case. Twisted's 64 KiB would mean four times the calls for a busy producer.
READ_BYTES = 256 << 10
#: The size of a first read, and of one behind a read of requests that were smaller than TINY_BYTES on average: to find
#: the end of each takes 2 us, and a hundred clients may have sent thousands before the broker reads any of them.
FEW_BYTES = 4 << 10
TINY_BYTES = 64
#: The requests that one read is to bring at most, if they are as large as those before.
MOST_REQUESTS = 1000


def read_size(meter: ConnectionMeter | None, size: int = 0, requests: int = 0) -> int:
    """Return the most bytes of the next read behind one of ``size`` bytes that brought so many requests."""
    if meter is not None and meter.in_debt:
        return SMALL_BYTES  # what is read is used at once
    if requests * TINY_BYTES >= size:
        return FEW_BYTES
    return min(READ_BYTES, MOST_REQUESTS * size // max(requests, 1))
