"""The sizes of partitions that other brokers store: asked for while somebody looks at them, and kept for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.client.admin.admin import Admin
from logd.deferreds.gathering import gather_some
from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import LogdError

#: Seconds for which a size is shown before it is asked for again, and until it is forgotten.
KEPT_SECONDS = 15.0
FORGOTTEN_SECONDS = 300.0
#: Partitions that are asked for in one reading, and at a time.
MOST_PLACES = 2000
AT_ONCE = 20
#: Seconds for which a page waits for a reading; what comes later is on the page's next update.
WAIT_SECONDS = 0.05

#: A topic and a partition's number.
Place = tuple[str, int]


@define(eq=False)
class ElsewhereSizes:
    """Sizes by partition, as their leaders told them last."""

    _log = Logger()

    _clock: Any
    _admin: Callable[[], AbstractAsyncContextManager[Admin]]
    #: The time of the answer, and the size; None where the leader did not tell it.
    _known: dict[Place, tuple[float, int | None]] = field(factory=dict, init=False)
    _reading: Deferred[None] | None = field(default=None, init=False)
    _waiting: WaitingDeferreds[None] = field(factory=WaitingDeferreds, init=False)

    def known(self, topic: str, numbers: Iterable[int]) -> tuple[int, int]:
        """Return the bytes of partitions together, and the number of those whose size is not known."""
        total = unknown = 0
        for number in numbers:
            _, size = self._known.get((topic, number), (0.0, None))
            if size is None:
                unknown += 1
            else:
                total += size
        return total, unknown

    async def look(self, places: Sequence[Place]) -> None:
        """Ask for sizes that are not known, or old; return once they are known, or after a short time without them."""
        now = self._clock.seconds()
        old = [place for place in places if place not in self._known or now - self._known[place][0] > KEPT_SECONDS]
        if old and self._reading is None:
            self._begin(old[:MOST_PLACES])
        if old and self._reading is not None:
            waiting = self._waiting.new()
            timer = self._clock.callLater(WAIT_SECONDS, self._waiting.fire, None)
            try:
                await waiting
            finally:
                if timer.active():
                    timer.cancel()

    def stop(self) -> None:
        """Give up a reading under way."""
        if self._reading is not None:
            self._reading.cancel()

    def _begin(self, places: Sequence[Place]) -> None:
        now = self._clock.seconds()
        for place, (then, _) in list(self._known.items()):
            if now - then > FORGOTTEN_SECONDS:
                del self._known[place]
        reading = self._reading = Deferred.fromCoroutine(self._read(places))
        reading.addErrback(self._failed)
        reading.addBoth(self._ended)

    async def _read(self, places: Sequence[Place]) -> None:
        async with self._admin() as admin:
            await gather_some((self._ask(admin, place) for place in places), AT_ONCE)

    async def _ask(self, admin: Admin, place: Place) -> None:
        size = None
        try:
            log = await admin.describe_log(*place)
            size = log.log_end - log.log_start
        except LogdError:
            pass  # the topic's page has the reason
        self._known[place] = self._clock.seconds(), size

    def _failed(self, failure: Failure) -> None:
        if not failure.check(CancelledError, LogdError):
            self._log.failure("the sizes of partitions elsewhere could not be read", failure)

    def _ended(self, _: object) -> None:
        self._reading = None
        self._waiting.fire(None)
