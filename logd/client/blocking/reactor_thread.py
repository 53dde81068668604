"""The reactor in a thread of its own, for scripts and notebooks that block."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import blockingCallFromThread
from twisted.python.threadable import isInIOThread

from logd.client.log_warnings import warn_by_logging
from logd.net.monotonic import use_monotonic_time

T = TypeVar("T")

_lock = threading.Lock()
_started = False


def running_reactor() -> Any:
    """Return the reactor; start it in a daemon thread if nothing runs it yet, once for the process.

    The thread is a daemon, so that a script ends after its last line. ``close`` the clients that you opened, or
    buffered messages are lost. Raises RuntimeError on the reactor's own thread, which must not block.
    """
    global _started
    from twisted.internet import reactor  # its import installs a reactor, so not before one is needed

    running: Any = reactor
    with _lock:
        if not running.running and not _started:
            _started = True
            warn_by_logging()
            use_monotonic_time(running)
            up = threading.Event()
            running.callWhenRunning(up.set)
            threading.Thread(
                target=running.run, kwargs={"installSignalHandlers": False}, name="logd-reactor", daemon=True
            ).start()
            up.wait()
    if isInIOThread():
        raise RuntimeError(
            "the blocking clients may not be used on the reactor's thread: use logd.client.producer.producer there"
        )
    return running


def call_there(reactor: Any, call: Callable[[], T]) -> T:
    """Call ``call()`` on the reactor's thread and return its result; raise its error."""
    result: Any = blockingCallFromThread(reactor, call)
    return result  # type: ignore[no-any-return]  # T; blockingCallFromThread has no type for calls without a Deferred


def wait_there(reactor: Any, call: Callable[[], Deferred[T]]) -> T:
    """Call ``call()`` on the reactor's thread and wait until its Deferred fires; raise the error it fails with."""
    calling: Callable[[], Any] = call
    result: Any = blockingCallFromThread(reactor, calling)
    return result  # type: ignore[no-any-return]  # T, by the Deferred
