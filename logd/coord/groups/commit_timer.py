"""Commits periodically, each some seconds after the previous commit has ended."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred

from logd.interfaces import Clock, Timer


class CommitTimer:
    """Calls ``commit`` every ``interval`` seconds while ``may_commit()``; with an interval of 0, never."""

    def __init__(
        self,
        clock: Clock,
        interval: float,
        may_commit: Callable[[], bool],
        commit: Callable[[], Deferred[None]],
    ) -> None:
        """``commit`` returns a Deferred that never fails."""
        self._clock = clock
        self._interval = interval
        self._may_commit = may_commit
        self._commit = commit
        self._timer: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        """Commit from now on."""
        if self._interval > 0.0 and not self._stopped:
            self._timer = self._clock.callLater(self._interval, self._due)

    def stop(self) -> None:
        """Commit no more."""
        self._stopped = True
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _due(self) -> None:
        self._timer = None
        if self._may_commit():
            self._commit().addBoth(lambda _: self.start())
        else:
            self.start()
