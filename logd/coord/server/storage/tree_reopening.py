"""Opens a durable tree again after a failed sync or a failed start, until that succeeds.

A failed fdatasync leaves the page cache in doubt, not the process: recovery drops the cached pages and reads what the
disk has, exactly as a new process would. Ending the process would gain nothing, and a broker would take down with the
tree the logs that it serves well. The folder is not locked between two attempts, so that an operator can repair it in
place.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from logd.coord.server.storage.durable_tree import Storage
from logd.coord.tree.tree import Tree
from logd.interfaces import Clock, IThreads, Timer

#: Seconds before an attempt: the first, and the longest after doubling.
FIRST_SECONDS = 0.5
LONGEST_SECONDS = 10.0
#: A tree that was served for this many seconds has recovered: the next failure is retried soon.
HEALED_SECONDS = 60.0


@define(eq=False)
class Reopening:
    """The attempts of one storage. ``reopened(tree)`` ends them; ``failed(error)`` is called for each failed one."""

    _clock: Clock
    _threads: IThreads
    _storage: Storage
    _reopened: Callable[[Tree], None]
    _failed: Callable[[Exception], None]
    _delay: float = field(default=FIRST_SECONDS, init=False)
    _since: float = field(default=0.0, init=False)
    _timer: Timer | None = field(default=None, init=False)
    _opening: bool = field(default=False, init=False)
    _ended: Callable[[], object] | None = field(default=None, init=False)

    def begin(self) -> None:
        """Close the storage and try to open it again, after a delay that grows from attempt to attempt."""
        if self._clock.seconds() - self._since >= HEALED_SECONDS:
            self._delay = FIRST_SECONDS
        self._storage.close(self._wait)

    def end(self, closed: Callable[[], object]) -> None:
        """Stop trying, close the storage and call."""
        self._ended = closed
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._opening:
            self._storage.close(closed)

    def _wait(self) -> None:
        if self._ended is None:
            self._timer = self._clock.callLater(self._delay, self._open)
            self._delay = min(2 * self._delay, LONGEST_SECONDS)

    def _open(self) -> None:
        self._timer = None
        self._opening = True
        self._threads.run(self._storage.open, self._opened)

    def _opened(self, tree: Tree | None, error: BaseException | None) -> None:
        self._opening = False
        if self._ended is not None:
            self._storage.close(self._ended)
        elif tree is not None:
            self._since = self._clock.seconds()
            self._reopened(tree)
        elif isinstance(error, Exception):
            self._failed(error)
            self._wait()
