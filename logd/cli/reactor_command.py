"""Runs the coroutine of one command on the reactor, and turns its result into an exit status."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logd.cli.terminal.exits import OK, SIGNALLED, complain, report, status_of
from logd.client.log_warnings import tell_warnings
from logd.net.monotonic import use_monotonic_time

#: A terminal's own sequence, for the cursor that a bar of progress has hidden.
_SHOW_CURSOR = b"\x1b[?25h"

#: A command's work: given the reactor, it returns a coroutine.
Work = Callable[[Any], Coroutine[Deferred[Any], Any, None]]


def run(work: Work, patience: float | None = None, abandon: Callable[[], object] = lambda: None) -> int:
    """Run ``work(reactor)`` to its end and return the exit status. Can be called only once in a process.

    SIGINT and SIGTERM cancel the work, which may then tidy up. A second signal, or ``patience`` seconds without an end,
    ends the process at once, after a call of ``abandon``.
    """
    from twisted.internet import reactor as installed

    # The modules loaded now stay, so the garbage collector need not scan them every hundred thousand messages.
    gc.freeze()
    reactor: Any = installed
    use_monotonic_time(reactor)
    ended: list[object] = []
    signalled: list[int] = []
    running: Deferred[None] = Deferred()

    def start() -> None:
        tell_warnings(complain)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, interrupt)
        nonlocal running
        running = Deferred.fromCoroutine(work(reactor))
        running.addBoth(finish)

    def interrupt(number: int, _frame: object) -> None:
        if signalled:
            end_at_once(number)
        signalled.append(number)
        reactor.callFromThread(cancel, number)

    def cancel(number: int) -> None:
        if patience is not None:
            reactor.callLater(patience, end_at_once, number)
        running.cancel()

    def end_at_once(number: int) -> None:
        abandon()
        if sys.stderr.isatty():
            os.write(sys.stderr.fileno(), _SHOW_CURSOR)
        os._exit(SIGNALLED + number)

    def finish(result: object) -> None:
        ended.append(result)
        reactor.stop()

    reactor.callWhenRunning(start)
    reactor.run()
    (result,) = ended
    if signalled:
        return SIGNALLED + signalled[0]
    if isinstance(result, Failure) and result.value is not None:
        report(result.value)
        return status_of(result.value)
    return OK
