"""The ids that this broker gives to idempotent producers: no other producer of the cluster has them."""

from __future__ import annotations

from collections.abc import Iterator

from logd.coord.interfaces import ICoordination
from logd.coord.registries.producer_ids import take_block
from logd.deferreds.locking import QueueLock


class ProducerIds:
    """Ids from the blocks that this broker takes from the coordination tree."""

    def __init__(self, tree: ICoordination) -> None:
        self._tree = tree
        self._left: Iterator[int] = iter(())
        self._lock = QueueLock()

    async def next(self) -> int:
        """Return an id. Raises CoordinationError, and ValueError for a node of the tree that cannot be read."""
        await self._lock.acquire()
        try:
            for each in self._left:
                return each
            self._left = iter(await take_block(self._tree))
            return next(self._left)
        finally:
            self._lock.release()
