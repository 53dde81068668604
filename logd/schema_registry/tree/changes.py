"""Changes of the schema registry: one at a time in this process, repeated where another registry was faster."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from twisted.internet import defer

from logd.coord.errors import BadVersion, ConnectionLoss, NodeExists, NoNode, NotEmpty, RuntimeInconsistency
from logd.coord.interfaces import ICoordination
from logd.coord.records import Operation
from logd.deferreds.locking import QueueLock
from logd.deferreds.sleeping import sleep
from logd.deferreds.timeouts import with_timeout
from logd.interfaces import Clock
from logd.schema_registry.errors import RegistryBusy
from logd.schema_registry.tree import paths
from logd.schema_registry.tree.reader import RegistryReader
from logd.schema_registry.tree.records import RegistrySettings

T = TypeVar("T")

#: Attempts when other registries change the same nodes, or an answer is lost.
ATTEMPTS = 20
#: Seconds before the second attempt, at most; the pause grows with each attempt.
FIRST_PAUSE = 0.02
#: Changes that may wait for their turn.
MOST_WAITING = 2_000
#: Seconds that a change waits for its turn. While the tree is away each change before it takes the timeout of a call
#: (10 s in ``twistd logd-registry``): without a limit the clients of a long queue would wait for minutes.
TURN_SECONDS = 15.0


class RegistryChanges:
    """Carries out changes, each as one multi at the versions that it read, so that it is made whole or not at all."""

    def __init__(self, reader: RegistryReader, clock: Clock, jitter: Callable[[], float] = random.random) -> None:
        """``jitter`` returns numbers from 0 to 1, by which pauses differ between registries."""
        self._reader = reader
        self._clock = clock
        self._jitter = jitter
        self._lock = QueueLock()
        self._prepared = False

    @property
    def _coordination(self) -> ICoordination:
        return self._reader.coordination

    async def make(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return ``attempt()``, which reads, decides and commits; call it again when what it read was changed.

        An answer that is lost is no failure: the next attempt finds what the lost one has done. Raises RegistryBusy,
        CoordinationError, and what ``attempt`` raises otherwise.
        """
        if len(self._lock.waiting) >= MOST_WAITING:
            raise RegistryBusy(f"{MOST_WAITING} changes of schemas wait already; try again later")
        try:
            await with_timeout(self._clock, TURN_SECONDS, self._lock.acquire())
        except defer.TimeoutError:
            raise RegistryBusy(
                f"the changes of schemas before this one have taken more than {TURN_SECONDS:g} s: the coordination "
                "tree is away or slow; nothing was changed, try again later"
            ) from None
        try:
            for number in range(1, ATTEMPTS + 1):
                try:
                    await self._prepare()
                    return await attempt()
                except (BadVersion, NodeExists, NoNode, NotEmpty, RuntimeInconsistency):
                    self._prepared = False
                except ConnectionLoss:
                    if number == ATTEMPTS:
                        raise
                await sleep(self._clock, self._jitter() * FIRST_PAUSE * number)
                await self._reader.refresh()
        finally:
            self._lock.release()
        raise RegistryBusy("other registries change the same schemas all the time; try again later")

    async def commit(self, operations: Sequence[Operation]) -> None:
        """Make all changes or none. Raises CoordinationError."""
        await self._coordination.multi(operations)

    async def make_node(self, path: str, data: bytes = b"") -> None:
        """Create a node that stays and has no other value, unless it is there. Raises CoordinationError."""
        with suppress(NodeExists):
            await self._coordination.create(path, data, makepath=True)

    async def _prepare(self) -> None:
        """Create the nodes that every change needs, once."""
        if self._prepared:
            return
        for path in (paths.IDS, paths.DIGESTS, paths.SUBJECTS, paths.REFERENCES):
            await self.make_node(path)
        await self.make_node(paths.LAST_ID, b"0")
        await self.make_node(paths.SETTINGS, RegistrySettings().encode())
        self._prepared = True
