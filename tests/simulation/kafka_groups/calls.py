"""Requests of members to brokers: delays on the way, lost connections, and brokers that stand still or end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logd.broker.kafka.groups.coordinator import GroupCoordinator, OnLost
from logd.broker.kafka.groups.group_rights import GroupRefused
from logd.testing.memory.clocks import ProcessClock
from tests.simulation.world import World


class Lost(Exception):
    """The connection of a request is lost, or its answer did not come in time."""


#: A request: what the broker does, given how to learn of the loss of the connection.
Work = Callable[[GroupCoordinator, OnLost], Awaitable[Any]]


@define(eq=False)
class Call:
    """One request on a connection of its own."""

    calls: Calls
    caller: ProcessClock
    callee: ProcessClock
    work: Work
    answer: Deferred[Any] = field(factory=Deferred)
    _over: bool = False
    _is_lost: bool = False
    _forget: list[Callable[[], None]] = field(factory=list)

    def begin(self, coordinator: GroupCoordinator) -> None:
        """Let the broker work."""
        if self._is_lost:
            return

        @contextmanager
        def lost(forget: Callable[[], None]) -> Iterator[None]:
            self._forget.append(forget)
            try:
                yield
            finally:
                self._forget.remove(forget)

        async def work() -> None:
            try:
                result = await self.work(coordinator, lost)
            except GroupRefused as refused:
                result = refused
            self.caller.callLater(self.calls.delay(), self.end, result)

        self.calls.world.network.graveyard.append(Deferred.fromCoroutine(work()).addErrback(self._failed))

    def end(self, result: Any) -> None:
        """Answer the caller, the first time."""
        if not self._over:
            self._over = True
            self.calls.open.pop(self, None)
            if isinstance(result, Lost):
                self.answer.errback(Failure(result))
            else:
                self.answer.callback(result)

    def lose(self) -> None:
        """Lose the connection: either side learns of it a little later."""
        self._is_lost = True
        self.calls.open.pop(self, None)
        self.caller.callLater(self.calls.delay(), self.end, Lost())
        self.callee.callLater(self.calls.delay(), self._lost_at_broker)

    def _lost_at_broker(self) -> None:
        for forget in tuple(self._forget):
            forget()

    def _failed(self, failure: Failure) -> None:
        self.calls.failed(failure)


@define(eq=False)
class Calls:
    """All requests."""

    world: World
    #: Called with a failure of a broker that no client is told of: a bug.
    failed: Callable[[Failure], None]
    random: Random = field(init=False)
    open: dict[Call, None] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.random = self.world.random("requests")

    def delay(self) -> float:
        """Return the seconds that a message takes."""
        return self.world.delay()

    async def ask(
        self, caller: ProcessClock, callee: tuple[ProcessClock, GroupCoordinator] | None, work: Work, timeout: float
    ) -> Any:
        """Return a broker's answer, a GroupRefused included. Raises Lost, also for a broker that does not run."""
        if callee is None:
            waiting: Deferred[None] = Deferred()
            caller.callLater(self.delay(), waiting.callback, None)
            await waiting
            raise Lost
        clock, coordinator = callee
        call = Call(self, caller, clock, work)
        self.open[call] = None
        clock.callLater(self.delay(), call.begin, coordinator)
        timer = caller.callLater(timeout, call.lose)
        try:
            return await call.answer
        finally:
            if timer.active():
                timer.cancel()

    def lose(self, clock: ProcessClock) -> None:
        """Lose the connections of a process that has ended."""
        for call in tuple(self.open):
            if clock in (call.caller, call.callee):
                call.lose()

    def lose_one(self) -> None:
        """Lose one connection."""
        if self.open:
            self.random.choice(list(self.open)).lose()
