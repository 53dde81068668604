"""The reactor in a thread of its own, for scripts and notebooks that block."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.error import ReactorNotRestartable
from twisted.python.failure import Failure
from twisted.python.threadable import isInIOThread

from logd.client.log_warnings import warn_by_logging
from logd.errors import ClientClosed
from logd.net.monotonic import use_monotonic_time

T = TypeVar("T")

#: Seconds after which a waiting thread looks whether the reactor still runs.
LOOK_SECONDS = 0.5

_lock = threading.Lock()
_started = False
_forked = False


class ReactorStopped(ClientClosed):
    """The reactor was stopped, and with it all clients of the process."""

    def __init__(self) -> None:
        super().__init__("the reactor was stopped, and cannot run again in this process: no client works any more")


def _note_fork() -> None:
    """Remember, in a child of ``os.fork``, that the reactor of its parent has no thread here."""
    global _forked, _lock
    _lock = threading.Lock()
    reactor = sys.modules.get("twisted.internet.reactor")
    _forked = _forked or _started or bool(getattr(reactor, "running", False))


os.register_at_fork(after_in_child=_note_fork)


def check_not_forked() -> None:
    """Raise RuntimeError in a child of ``os.fork`` whose parent runs the reactor: no call would ever be answered."""
    if _forked:
        raise RuntimeError(
            "this process was forked from one that runs the reactor, whose thread is not here: begin to use the "
            "blocking clients after the fork, or start the child by the method 'spawn' of multiprocessing"
        )


def check_running(reactor: Any) -> None:
    """Raise ReactorStopped once the reactor was stopped, and RuntimeError as ``check_not_forked`` does."""
    check_not_forked()
    if not reactor.running:
        raise ReactorStopped


def wait_running(reactor: Any, wait: Callable[[float], bool], timeout: float | None = None) -> bool:
    """Call ``wait(seconds)`` until it returns True, for at most ``timeout`` seconds; return whether it did.

    Each call is short: a reactor that stops tells no thread so, and waits for those of its pool. Raises ReactorStopped
    once nothing would ever end the waiting.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        running = reactor.running  # before the look: what came until the stop counts
        left = LOOK_SECONDS if deadline is None else max(0.0, min(LOOK_SECONDS, deadline - time.monotonic()))
        if wait(left if running else 0.0):
            return True
        if not running:
            raise ReactorStopped
        if deadline is not None and time.monotonic() >= deadline:
            return False


def running_reactor() -> Any:
    """Return the reactor; start it in a daemon thread if nothing runs it yet, once for the process.

    The thread is a daemon, so that a script ends after its last line. ``close`` the clients that you opened, or
    buffered messages are lost. Raises ReactorStopped once the reactor has run and was stopped, and RuntimeError on its
    own thread, which must not block, and in a child of ``os.fork`` whose parent runs the reactor.
    """
    global _started
    check_not_forked()
    from twisted.internet import reactor  # its import installs a reactor, so not before one is needed

    running: Any = reactor
    with _lock:
        if not running.running and not _started:
            _started = True
            warn_by_logging()
            use_monotonic_time(running)
            up = threading.Event()
            running.callWhenRunning(up.set)
            threading.Thread(target=_run, args=(running, up), name="logd-reactor", daemon=True).start()
            up.wait()
    check_running(running)
    if isInIOThread():
        raise RuntimeError(
            "the blocking clients may not be used on the reactor's thread: use logd.client.producer.producer there"
        )
    return running


def _run(reactor: Any, up: threading.Event) -> None:
    try:
        with suppress(ReactorNotRestartable):  # the application has run it before
            reactor.run(installSignalHandlers=False)
    finally:
        up.set()


def call_there(reactor: Any, call: Callable[[], T]) -> T:
    """Call ``call()`` on the reactor's thread and return its result; raise its error, or ReactorStopped."""
    result: T = _result_there(reactor, call)
    return result


def wait_there(reactor: Any, call: Callable[[], Deferred[T]]) -> T:
    """Call ``call()`` on the reactor's thread and wait until its Deferred fires; raise the error it fails with.

    Raises ReactorStopped if the reactor was stopped, or is before the Deferred fires.
    """
    result: T = _result_there(reactor, call)
    return result


def _result_there(reactor: Any, call: Callable[[], Any]) -> Any:
    check_running(reactor)
    results: list[Any] = []
    known = threading.Event()

    def keep(result: Any) -> None:
        results.append(result)
        known.set()

    reactor.callFromThread(lambda: maybeDeferred(call).addBoth(keep))
    wait_running(reactor, known.wait)
    result = results.pop()
    if isinstance(result, Failure):
        result.raiseException()
    return result
