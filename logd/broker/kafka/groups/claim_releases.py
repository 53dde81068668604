"""The claims that this broker gives back to the tree, again and again until it has succeeded or the session is over.

Native consumers of a group wait for the end of its claim, and nothing else leads to a claim whose group has no members.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred

from logd.broker.topics.named_locks import NamedLocks
from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.kafka_groups.claim import GroupClaim
from logd.coord.records import SessionState
from logd.deferreds.background import Background
from logd.deferreds.fair_turns import FairTurns, RestingWorks
from logd.deferreds.gathering import for_each
from logd.deferreds.sleeping import sleep
from logd.interfaces import Clock

#: Seconds until claims are given back again that could not be: a tree that has too many calls to answer refuses others.
_AGAIN_SECONDS = 1.0
#: Claims that are given back at the same time.
_AT_ONCE = 100


class ClaimReleases:
    """See the module. For the reactor's thread alone."""

    def __init__(
        self,
        coordination: ICoordination,
        clock: Clock,
        resting: RestingWorks,
        locks: NamedLocks,
        is_held: Callable[[str], bool],
    ) -> None:
        """``locks``: held by name while a group is claimed. ``is_held(name)``: its members need the claim."""
        self._coordination = coordination
        self._clock = clock
        self._resting = resting
        self._locks = locks
        self._is_held = is_held
        self._background = Background("the claims of groups of Kafka clients")
        #: The claims that could not be given back, by group.
        self._waiting: dict[str, GroupClaim] = {}
        self._going_on: Deferred[None] | None = None

    def __len__(self) -> int:
        """Return the number of claims that could not be given back so far."""
        return len(self._waiting)

    def begin(self, name: str, claim: GroupClaim) -> None:
        """Give a claim back, unless its group is held once its lock is free."""
        self._background.start(self._begin(name, claim))

    def go_on(self) -> None:
        """Give back at once what could not be given back, as the tree can be reached again."""
        self._start(0.0)

    def forget(self) -> None:
        """Forget all claims: they have ended with the session."""
        self._waiting = {}

    async def _begin(self, name: str, claim: GroupClaim) -> None:
        if not await self._release(name, claim):
            self._start(_AGAIN_SECONDS)

    async def _release(self, name: str, claim: GroupClaim) -> bool:
        """Give a claim back; return False, and note it, if that fails."""
        async with self._locks.hold(name):
            if not self._is_held(name):
                try:
                    await claim.release()
                except CoordinationError:
                    self._waiting[name] = claim
                    return False
        return True

    def _start(self, delay: float) -> None:
        if self._going_on is None or self._going_on.called:
            self._going_on = self._background.start(self._release_again(delay))

    async def _release_again(self, delay: float) -> None:
        # While the connection is lost each call would wait for its time to be over: the next connection begins anew.
        while self._waiting and self._coordination.state is SessionState.CONNECTED:
            await sleep(self._clock, delay)
            await self._release_waiting()
            delay = _AGAIN_SECONDS

    async def _release_waiting(self) -> None:
        """Give back the claims that wait, but for those whose turn comes after one has failed."""
        failed = False

        async def release(name: str) -> None:
            nonlocal failed
            claim = None if failed else self._waiting.pop(name, None)
            if claim is not None and not await self._release(name, claim):
                failed = True

        turns = FairTurns(self._clock, self._resting)
        await for_each(tuple(self._waiting), release, _AT_ONCE, turns)
