"""The beginnings of a restored cluster's logs: behind every position that may have been given since the backup.

A backup knows how far each log was stored at its time. Messages may have come since, and logs may have begun again
after losses, or after an earlier restoration of the same backup. So a restored log begins a number of slots of 2^40
positions further: one for each second since the backup, and after two days one for each minute. No log grows by 2^40
bytes in a minute, so what a later restoration gives lies behind what an earlier one gave. No topic is restored before
its slot is over, so that two restorations never have the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from logd.coord.registries.stored_ends import GROWTH, LARGEST_END, StoredEnds
from logd.errors import LogdError
from logd.topic import TopicEntry

#: Positions from the beginning of one slot to the next; a log begins again at a multiple of it.
SLOT = 2 * GROWTH
#: Seconds for which each second has a slot of its own.
FINE_SECONDS = 2 * 86_400
_MINUTE = 60


class ClockBehind(LogdError):
    """This machine's clock is before the time of the backup."""


def slots_since(backup_ms: int, now_ms: int) -> int:
    """Return the number of slots to leave free. Raises ClockBehind."""
    seconds = (now_ms - backup_ms) // 1000
    if seconds < 0:
        raise ClockBehind(
            f"the backup was made {-seconds} seconds after the time of this machine: set the clock right, as the "
            "positions of the restored logs follow from the time since the backup"
        )
    return 1 + min(seconds, FINE_SECONDS) + max(seconds - FINE_SECONDS, 0) // _MINUTE


def slot_end(backup_ms: int, now_ms: int) -> int:
    """Return the time in ms at which the slot of now is over."""
    seconds = (now_ms - backup_ms) // 1000
    minutes = (seconds - FINE_SECONDS) // _MINUTE
    return backup_ms + 1000 * (seconds + 1 if minutes < 0 else FINE_SECONDS + (minutes + 1) * _MINUTE)


def restored_ends(topic: str, entry: TopicEntry, stored: Mapping[int, StoredEnds], slots: int) -> dict[int, StoredEnds]:
    """Return, by broker, the stored ends with which a restored topic begins again behind all its former positions.

    ``stored`` is what the backup has. Raises LogdError if no position is left.
    """
    restored = {}
    for broker in sorted({broker for listed in entry.partitions.values() for broker in listed}):
        numbers = [number for number, listed in entry.partitions.items() if broker in listed]
        ends = {}
        for number in numbers:
            known = max([each.ends[number] for each in stored.values() if number in each.ends], default=0)
            ends[number] = (known // SLOT + slots) * SLOT
            if ends[number] > LARGEST_END:
                raise LogdError(
                    f"{topic}-{number} was stored up to {known}, and no position behind that is left after so long a "
                    "time: create the topic anew, under another name"
                )
        instance = stored[broker].instance if broker in stored else "unknown"
        restored[broker] = StoredEnds(instance, ends, given_up=frozenset(numbers))
    return restored
