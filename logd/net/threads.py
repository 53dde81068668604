"""A small thread pool for work that may wait for a disk. Results are delivered on the reactor's thread."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import ConfigurationError
from logd.interfaces import IThreads

T = TypeVar("T")


class ReactorThreads(Protocol):
    """The method of a reactor that is used here."""

    def callFromThread(self, callable: Callable[..., object], *args: Any) -> None: ...  # noqa: N802, A002


class _DaemonThread(Thread):
    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords, daemon=True)


@implementer(IThreads)
class DiskThreads:
    """IThreads over a Twisted thread pool.

    The reactor's own pool is not used: it also resolves names and runs the application's work, and a slow disk would
    starve both.
    """

    def __init__(self, reactor: ReactorThreads, count: int, name: str) -> None:
        """``count`` is the number of threads. They start in ``start`` and not before, as twistd forks first."""
        self._reactor = reactor
        self._count = count
        self._name = name
        self._pool = ThreadPool(count, count, name)
        # Daemon threads let the process end while a thread waits for the disk for ever.
        self._pool.threadFactory = _DaemonThread
        self._under_way = 0
        self._ending: WaitingDeferreds[None] = WaitingDeferreds()

    def start(self) -> None:
        """Start all threads now, as work would be lost if its thread could not be started later.

        Raises ConfigurationError if the system does not allow that many threads.
        """
        try:
            self._pool.start()
        except RuntimeError as error:
            pool = self._pool
            pool.threads = [
                thread for thread in pool.threads if thread.ident is not None
            ]  # stopping waits for each thread
            pool.stop()
            raise ConfigurationError(
                f"cannot start the {self._count} threads of {self._name}: {error}; the system's limit on threads is "
                "reached (see `ulimit -u`, and the limit on processes of the service or container)"
            ) from error

    def stop(self) -> None:
        """Wait for the work under way, then end the threads. Blocks."""
        self._pool.stop()

    def end(self) -> Deferred[None]:
        """End the threads once no work is under way, then fire. Never fires while a thread waits for the disk."""
        ended = self._ending.new()
        self._end_idle()
        return ended

    @property
    def lost(self) -> int:
        """The number of threads that have ended although nobody ended them; their work waits for ever."""
        return sum(not thread.is_alive() for thread in self._pool.threads) if self._pool.started else 0

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        """See IThreads."""

        def finished(success: bool, result: Any) -> None:
            if success:
                self._reactor.callFromThread(self._finished, done, result, None)
            else:
                error = result.value if isinstance(result, Failure) else RuntimeError(repr(result))
                self._reactor.callFromThread(self._finished, done, None, error)

        self._under_way += 1
        self._pool.callInThreadWithCallback(finished, work)

    def _finished(self, done: Callable[[Any, BaseException | None], None], result: Any, error: Any) -> None:
        self._under_way -= 1
        try:
            done(result, error)
        finally:
            self._end_idle()

    def _end_idle(self) -> None:
        if self._ending and not self._under_way:
            self._pool.stop()
            self._ending.fire(None)
