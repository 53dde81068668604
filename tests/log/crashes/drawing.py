"""Random entries for a random life of a log."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from attrs import field, frozen

from logd.protocol.batch_layout import BATCH
from logd.protocol.entry import MAGIC_AT
from tests.log.entries import batch, plain, record, timed, wrapped


@frozen
class DrawnSets:
    """Sets of one entry each, to be appended together."""

    sets: list[bytes] = field(factory=list)
    #: The newest time in ms, -1 for none.
    newest: int = -1

    @property
    def has_batches(self) -> bool:
        """Return whether one of the entries is a batch."""
        return any(entry[MAGIC_AT] == BATCH for entry in self.sets)


def draw_sets(random: Random, now_ms: int, may_append_batches: Callable[[], bool]) -> DrawnSets:
    """Draw one to three sets. ``may_append_batches`` is asked for each batch that is drawn, plain otherwise."""
    sets = []
    newest = -1
    for _ in range(random.randint(1, 3)):
        payload = random.randbytes(random.randint(0, 40))
        kind = random.randrange(9)
        if kind == 0:
            sets.append(timed(payload, now_ms))
            newest = now_ms
        elif kind == 1:
            sets.append(wrapped(payload))
        elif kind == 2 and may_append_batches():
            sets.append(batch(record(payload), record(b"", 1), time=now_ms))
            newest = now_ms
        else:
            sets.append(plain(payload))
    return DrawnSets(sets, newest)
