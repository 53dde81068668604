"""Sets of one partition on their way to the target: each is prepared and sent once those before it are sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from attrs import define, field
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from logd.deferreds.background import Background
from logd.errors import LogdError

T = TypeVar("T")


@define(eq=False)
class HeldSets(Generic[T]):
    """The sets that are not sent, in order. They leave at once, unless the first has to wait for something."""

    _log = Logger()

    #: Prepares a set; fails for one that cannot be sent. Cancelled once the set is not wanted any more.
    prepare: Callable[[T], Coroutine[Any, Any, None]]
    #: Sends a set that is prepared.
    send: Callable[[T], Coroutine[Any, Any, None]]
    #: Called once with the error of a set, and whether it is sent in part. It and those behind it are held for ever.
    failed: Callable[[LogdError, bool], object]
    #: True once nothing more is taken.
    closed: bool = field(default=False, init=False)
    #: The sets, and perhaps behind them the error of what could be none.
    _held: deque[T | LogdError] = field(factory=deque, init=False)
    _is_working: bool = field(default=False, init=False)
    _is_sending: bool = field(default=False, init=False)
    _background: Background = field(factory=lambda: Background("the copy of a partition"), init=False)

    def add(self, held: T | LogdError) -> None:
        """Prepare and send a set behind the others, or fail in its place; then nothing more is taken."""
        self.closed = self.closed or isinstance(held, LogdError)
        self._held.append(held)
        if not self._is_working:
            self._is_working = True
            self._background.start(self._send_all())

    def close(self) -> int:
        """Take and send nothing more, and return the number of sets that were held: the last ones that were added.

        One that is being sent is no longer held, and is sent to its end.
        """
        self.closed = True
        dropped = sum(not isinstance(each, LogdError) for each in self._held)
        self._held.clear()
        if not self._is_sending:
            self._background.stop()
        return dropped

    def abandon(self) -> None:
        """Send nothing more, not even the rest of a set."""
        self._held.clear()
        self.closed = True
        self._background.stop()

    async def _send_all(self) -> None:
        try:
            while self._held:
                first = self._held[0]
                if isinstance(first, LogdError):
                    raise first
                await self.prepare(first)
                if not self._held:  # closed by what the end of this work let go on
                    return
                self._held.popleft()
                self._is_sending = True
                await self.send(first)
                self._is_sending = False
            self._is_working = False
        except CancelledError:
            if self._background.was_stopped:
                raise
            self._fail(LogdError("the preparation of a set was cancelled"))
        except LogdError as error:
            self._fail(error)
        except Exception as error:
            self._log.failure("a bug in the copy of a partition, which begins again")
            self._fail(LogdError(str(error)))

    def _fail(self, error: LogdError) -> None:
        self.closed = True
        self.failed(error, self._is_sending)
