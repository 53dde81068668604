"""Transactions that changes of the coordination tree share if they are asked for at the same time.

A broker that dies leaves the in-sync sets of all partitions that it followed, at the same moment and by the same
leaders: with a transaction for each of them they would be thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from logd.coord.errors import ConnectionLoss, OperationTimeout
from logd.coord.interfaces import ICoordination
from logd.coord.records import Check, Operation
from logd.deferreds.background import Background
from logd.deferreds.gathering import for_each
from logd.interfaces import Clock

#: The most changes of one transaction.
BATCH = 200
#: Changes that are made at a time by themselves, after a transaction of all of them has failed.
SINGLE_AT_ONCE = 50


@define(eq=False)
class WaitingChange:
    """A change that was asked for."""

    check: Check
    change: Operation
    #: Returns whether the tree has the change, as far as it tells.
    is_made: Callable[[], Coroutine[Any, Any, bool]]
    #: Fires once it is made; fails with CoordinationError.
    made: Deferred[None] = field(factory=Deferred)


@define(eq=False)
class SharedTransactions:
    """The changes that were asked for in this turn of the reactor. Each is made or fails by itself."""

    _coordination: ICoordination
    _clock: Clock
    _waiting: list[WaitingChange] = field(factory=list, init=False)
    _background: Background = field(factory=lambda: Background("changing the coordination tree"), init=False)

    def make(self, check: Check, change: Operation, is_made: Callable[[], Coroutine[Any, Any, bool]]) -> Deferred[None]:
        """Make a change together with a check, by which it fails; ``is_made`` looks for it if an answer is lost.

        Fires once it is made. Fails with the CoordinationError of its own operations: ConnectionLoss or
        OperationTimeout if it may or may not be made. Cancelled in this turn of the reactor, it is not made.
        """
        if not self._waiting:
            self._clock.callLater(0, self._make_waiting)
        waiting = WaitingChange(check, change, is_made)
        self._waiting.append(waiting)
        return waiting.made

    def _make_waiting(self) -> None:
        waiting, self._waiting = [each for each in self._waiting if not each.made.called], []
        for start in range(0, len(waiting), BATCH):
            self._background.start(self._make_together(waiting[start : start + BATCH]))

    async def _make_together(self, batch: Sequence[WaitingChange]) -> None:
        is_doubtful = False
        if len(batch) > 1:
            checks = dict.fromkeys(each.check for each in batch)
            try:
                await self._coordination.multi([*checks, *(each.change for each in batch)])
            except Exception as error:  # of one of them, which keeps no other one waiting
                is_doubtful = isinstance(error, ConnectionLoss | OperationTimeout)
            else:
                for each in batch:
                    each.made.callback(None)
                return

        async def make(waiting: WaitingChange) -> None:
            try:
                if not (is_doubtful and await waiting.is_made()):
                    await self._make_one(waiting)
            except Exception as error:  # also a bug: nobody may wait for ever
                waiting.made.errback(error)
            else:
                waiting.made.callback(None)

        await for_each(batch, make, SINGLE_AT_ONCE)

    async def _make_one(self, waiting: WaitingChange) -> None:
        try:
            await self._coordination.multi([waiting.check, waiting.change])
        except (ConnectionLoss, OperationTimeout):
            if not await waiting.is_made():
                raise
