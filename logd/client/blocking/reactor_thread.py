"""The reactor in a thread of its own, for scripts and notebooks that block."""

from __future__ import annotations

import os
import sys
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
_forked = False


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


def running_reactor() -> Any:
    """Return the reactor; start it in a daemon thread if nothing runs it yet, once for the process.

    The thread is a daemon, so that a script ends after its last line. ``close`` the clients that you opened, or
    buffered messages are lost. Raises RuntimeError on the reactor's own thread, which must not block, and in a child
    of ``os.fork`` whose parent runs the reactor.
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
    check_not_forked()
    result: Any = blockingCallFromThread(reactor, call)
    return result  # type: ignore[no-any-return]  # T; blockingCallFromThread has no type for calls without a Deferred


def wait_there(reactor: Any, call: Callable[[], Deferred[T]]) -> T:
    """Call ``call()`` on the reactor's thread and wait until its Deferred fires; raise the error it fails with."""
    check_not_forked()
    calling: Callable[[], Any] = call
    result: Any = blockingCallFromThread(reactor, calling)
    return result  # type: ignore[no-any-return]  # T, by the Deferred
