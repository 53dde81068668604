"""The ids of idempotent producers, at /producers/ids: the first id that was not given out yet, as decimal text.

A broker takes a block of ids at a time, so that no id is given twice in a cluster and few writes are needed.
"""

from __future__ import annotations

from contextlib import suppress

from logd.checkedjson import INT64_MAX, decimal
from logd.coord import paths
from logd.coord.errors import BadVersion, NodeExists, NoNode
from logd.coord.interfaces import ICoordination

#: The ids of a block.
BLOCK = 1000


def decode_next(data: bytes) -> int:
    """Return the first id that was not given out yet. Raises ValueError."""
    return decimal(data.decode("ascii", "replace"), INT64_MAX - BLOCK)


async def take_block(coordination: ICoordination) -> range:
    """Take the next block of ids. Raises CoordinationError, and ValueError for a node that cannot be read."""
    while True:
        try:
            data, stat = await coordination.get(paths.PRODUCER_IDS)
        except NoNode:
            with suppress(NodeExists):
                await coordination.create(paths.PRODUCER_IDS, b"0", makepath=True)
            continue
        first = decode_next(data)
        with suppress(BadVersion):  # another broker was faster
            await coordination.set(paths.PRODUCER_IDS, str(first + BLOCK).encode(), stat.version)
            return range(first, first + BLOCK)
