"""Checks who leads, by another broker, while a broker leaves requests about partitions unanswered.

The clients of a machine that loses its power would wait for the whole of ``request_timeout``, long after another broker
leads. ``clientcore.silence`` has the times.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.clientcore.silence import FIRST_SECONDS, until_next_check
from logd.errors import LogdError
from logd.interfaces import Clock, Timer


class LeaderChecks:
    """The checks of one link: one at a time is begun, for all requests on its connection together."""

    _log = Logger()

    def __init__(
        self,
        clock: Clock,
        waits_since: Callable[[], float | None],
        has_moved: Callable[[], Coroutine[Any, Any, bool]],
        give_up: Callable[[], None],
    ) -> None:
        """``waits_since()`` is the time by which the oldest request should have had its answer, None without any.

        ``has_moved()`` asks another broker whether the partitions of the requests are led elsewhere; then ``give_up()``
        is called, if the broker still has not answered.
        """
        self._clock = clock
        self._waits_since = waits_since
        self._has_moved = has_moved
        self._give_up = give_up
        self._timer: Timer | None = None
        self._stopped = False

    def asked(self) -> None:
        """Note a request about partitions. One timer serves all; it ends when there is none that waits."""
        if self._timer is None and not self._stopped:
            self._timer = self._clock.callLater(FIRST_SECONDS, self._look)

    def stop(self) -> None:
        """Make no further check."""
        self._stopped = True
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _look(self) -> None:
        self._timer = None
        since = self._waits_since()
        if since is None:
            return
        waited = self._clock.seconds() - since
        if waited < FIRST_SECONDS:
            delay = min(FIRST_SECONDS, FIRST_SECONDS - waited)  # a request that may take less long can follow
        else:
            delay = until_next_check(waited)
            Deferred.fromCoroutine(self._has_moved()).addCallbacks(self._checked, self._failed, (since,))
        self._timer = self._clock.callLater(delay, self._look)

    def _checked(self, moved: bool, since: float) -> None:
        if moved and self._waits_since() == since:
            self._give_up()

    def _failed(self, failure: Failure) -> None:
        if not failure.check(LogdError):
            self._log.failure("a bug in the check of a leader", failure)
