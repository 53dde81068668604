"""A reactor of its own on a thread, beside the reactor or the event loop of the test, if it has any."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.epollreactor import EPollReactor
from twisted.python import threadable
from twisted.python.failure import Failure

from logd.net.monotonic import use_monotonic_time

T = TypeVar("T")


class ReactorEnded(RuntimeError):
    """The thread of the reactor was stopped before a call was done."""


class _PrivateReactor(EPollReactor):
    """A reactor that is not installed: ``twisted.internet.reactor`` stays what it is, or is not imported at all."""

    def startRunning(self, *args: Any, **keywords: Any) -> None:  # noqa: N802  # Twisted calls it
        # It notes its thread as that of the process's reactor, of which others ask ``isInIOThread``.
        thread = threadable.ioThread
        super().startRunning(*args, **keywords)
        threadable.ioThread = thread

    def release(self) -> None:
        """Close the descriptors of a reactor that runs no more; Twisted leaves that to the end of the process."""
        for reader in tuple(self._internalReaders):
            self.removeReader(reader)
            self._internalReaders.discard(reader)
            reader.connectionLost(Failure(ConnectionAbortedError("the reactor has ended")))
        self._poller.close()


class ReactorThread:
    """A thread that runs a reactor of its own from ``start`` to ``stop``. Its methods are for other threads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process = os.getpid()
        self._thread: threading.Thread | None = None
        #: The results that other threads wait for; under the lock, as a call may come while the thread is stopped.
        self._outcomes: set[Future[Any]] = set()
        self._lock = threading.Lock()
        self.reactor: Any = None

    def start(self) -> None:
        """Start the thread, and return once the reactor runs."""
        self.reactor = _PrivateReactor()
        use_monotonic_time(self.reactor)
        running = threading.Event()
        self.reactor.callWhenRunning(running.set)
        self._thread = threading.Thread(
            target=self.reactor.run, kwargs={"installSignalHandlers": False}, name=self._name, daemon=True
        )
        self._thread.start()
        running.wait()

    def wait(self, work: Callable[[], Deferred[T]]) -> T:
        """Call ``work()`` on the thread, wait until its Deferred fires, and return its result or raise its error.

        Raises RuntimeError as ``call``.
        """
        result: Any = self.call(work)
        return result  # type: ignore[no-any-return]  # T: ``call`` has waited for the Deferred

    def call(self, work: Callable[[], T]) -> T:
        """Call ``work()`` on the thread and return its result or raise its error.

        Raises RuntimeError in a forked child of the process, where the thread does not run, and ReactorEnded when it is
        stopped.
        """
        outcome: Future[Any] = Future()
        if os.getpid() != self._process:  # another thread of the parent may have held the lock
            raise RuntimeError(f"{self._name} does not run: this process was forked from the one that runs it")
        with self._lock:
            if self._thread is None:
                raise ReactorEnded(f"{self._name} does not run: it was closed")
            self._outcomes.add(outcome)

        def run() -> None:
            doing: Any = maybeDeferred(work)
            doing.addCallbacks(outcome.set_result, lambda failure: outcome.set_exception(failure.value))

        self.reactor.callFromThread(run)
        try:
            result: T = outcome.result()
        finally:
            self._outcomes.discard(outcome)
        return result

    def stop(self) -> None:
        """Stop the reactor and wait for the thread; calls that are not done then fail.

        Does nothing in a forked child and if it does not run.
        """
        if os.getpid() != self._process:
            return
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        self.reactor.callFromThread(self.reactor.stop)
        thread.join()
        self.reactor.release()
        for outcome in tuple(self._outcomes):
            if not outcome.done():
                outcome.set_exception(ReactorEnded(f"{self._name} was closed in the meantime"))
