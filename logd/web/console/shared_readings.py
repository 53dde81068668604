"""Readings that take long: made once for all who ask at the same time, and shown again for some seconds."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import CoordinationUnavailable, LogdError

T = TypeVar("T")


@define(eq=False)
class SharedReading(Generic[T]):
    """The result of ``read()``, as old as ``seconds`` at most. Each browser that watches asks for it by itself."""

    _log = Logger()

    _clock: Any
    _seconds: float
    _read: Callable[[], Coroutine[Any, Any, T]]
    #: The time until which a result is shown again, with the result.
    _found: tuple[float, T] | None = field(default=None, init=False)
    _waiting: WaitingDeferreds[T] = field(factory=WaitingDeferreds, init=False)
    _under_way: bool = field(default=False, init=False)
    _reading: Deferred[None] | None = field(default=None, init=False)

    async def get(self) -> T:
        """Return the result. Raises what ``read`` raises, and CoordinationUnavailable once stopped."""
        if self._found is not None and self._clock.seconds() < self._found[0]:
            return self._found[1]
        waiting = self._waiting.new()
        if not self._under_way:
            self._under_way = True
            self._reading = Deferred.fromCoroutine(self._go())
        return await waiting

    def stop(self) -> None:
        """Give up a reading under way."""
        if self._reading is not None:
            self._reading.cancel()

    async def _go(self) -> None:
        """Read to the end, also if the one who asked first has gone: others may wait."""
        found: tuple[float, T] | None = None
        error: Exception | None = None
        try:
            result = await self._read()
            found = self._clock.seconds() + self._seconds, result
        except CancelledError:
            error = CoordinationUnavailable("the broker is stopping")
        except Exception as raised:
            error = raised
            if not (len(self._waiting) or isinstance(raised, LogdError)):
                self._log.failure("what nobody waits for any more could not be read")
        self._under_way, self._found = False, found  # first, as those that wait may ask again
        if error is not None:
            self._waiting.fail(error)
        elif found is not None:
            self._waiting.fire(found[1])
