"""The age of the message at a position, found by asking the partition's leader for the positions of times."""

from __future__ import annotations

from logd.client.admin.admin import Admin

#: The greatest age, in seconds, that a log is asked about (some 34 years).
OLDEST = 1 << 30
#: The precision of an answer: one second, or this part of the age if that is more.
EXACT = 1 / 64


async def age_at(admin: Admin, topic: str, partition: int, position: int, now_ms: int) -> float:
    """Return the seconds from the time of the message at ``position`` until ``now_ms``, by doubling and halving.

    A message's time is its timestamp, or the time of its append, as exact as the broker's index (see Time): the answer
    may be too small by the time that one index entry covers. Takes some ten requests for an age of minutes, twenty for
    one of days. Fails as ``Admin.describe_log`` does.
    """

    async def reached(age: float) -> bool:
        """Return whether a message at or before the position may be as new as ``age``."""
        found = await admin.describe_log(topic, partition, time=max(0, now_ms - round(age * 1000)))
        return 0 <= found.time_position <= position

    low, high = 0.0, 1.0
    while not await reached(high):
        low, high = high, high * 2
        if high >= OLDEST:
            return high
    while high - low > max(1.0, high * EXACT):
        middle = (low + high) / 2
        if await reached(middle):
            high = middle
        else:
            low = middle
    return round(high, 1)
