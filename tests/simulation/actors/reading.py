"""The bounds of all readers on compressed wrappers, and the way on behind a wrapper above them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress

from attrs import define

from logd.client.consumer.stream import MessageStream
from logd.errors import WrapperTooLarge, WrongPartition
from tests.simulation.ledger import Ledger
from tests.simulation.violation import check

#: Bounds of an expanded wrapper in bytes and in messages; those of producers are far below.
MOST_BYTES = 50_000
MOST_MESSAGES = 300
BOUNDS = {"max_decompressed": MOST_BYTES, "max_decompressed_messages": MOST_MESSAGES}

_PLACE = re.compile(r"topic '([^']+)', partition (\d+): ")


@define
class Losses:
    """Counts of a reader's streams: jumps over removed messages, and gaps."""

    jumps: int = 0
    gaps: int = 0

    def with_those_of(self, streams: Iterable[MessageStream]) -> Losses:
        """Return the sum of these and of the streams' own counts."""
        streams = list(streams)
        jumps, gaps = sum(stream.jumps for stream in streams), sum(stream.gaps for stream in streams)
        return Losses(self.jumps + jumps, self.gaps + gaps)


def go_on_behind(
    error: WrapperTooLarge, ledger: Ledger, seek: Callable[[int, int, str], None]
) -> tuple[str, int, int, int]:
    """Follow the error's advice: go on behind the wrapper, unless the partition was taken away meanwhile."""
    setting = BOUNDS.get(error.setting)
    check(error.limit == setting and error.setting in str(error), "the error does not name the setting", str(error))
    found = _PLACE.match(str(error))
    assert found is not None, str(error)
    topic, partition = found[1], int(found[2])
    check(0 <= error.position < error.end, "the error does not say where to go on", str(error))
    ledger.pass_bomb((topic, partition), error.position, error.end)
    with suppress(WrongPartition):
        seek(partition, error.end, topic)
    return topic, partition, error.position, error.end
