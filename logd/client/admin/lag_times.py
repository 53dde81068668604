"""How old what lies at a position is, by asking the partition's leader where times begin."""

from __future__ import annotations

from logd.client.admin.admin import Admin

#: Seconds: no log is asked about times before that (some 34 years).
OLDEST = 1 << 30
#: How exact an answer is: to a second, or to this part of the age where that is more.
EXACT = 1 / 64


async def age_at(admin: Admin, topic: str, partition: int, position: int, now_ms: int) -> float:
    """Seconds from the time of the message at ``position`` until ``now_ms``, found by doubling and halving.

    A message's time is its timestamp, or when it was appended, as exactly as the broker's index knows that (see Time):
    the answer may be too small by what one entry of the index covers. Some ten questions for an age of minutes, twenty
    for one of days. Fails as ``Admin.describe_log`` does.
    """

    async def reached(age: float) -> bool:
        """Whether something at or before the position is as new as that."""
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
