"""Runs the coroutine of one command on the reactor, and turns its result into an exit status."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logd.cli.stopping import Stopping
from logd.cli.terminal.exits import OK, SIGNALLED, complain, report, status_of
from logd.cli.terminal.progress import clear_progress
from logd.client.log_warnings import tell_warnings
from logd.net.monotonic import use_monotonic_time

#: A terminal's own sequence, for the cursor that a bar of progress has hidden.
_SHOW_CURSOR = b"\x1b[?25h"

#: A command's work: given the reactor, it returns a coroutine.
Work = Callable[[Any], Coroutine[Deferred[Any], Any, None]]


def run(work: Work, stopping: Stopping | None = None) -> int:
    """Run ``work(reactor)`` to its end and return the exit status. Can be called only once in a process.

    A signal cancels the work, whose end then may take as long as ``stopping`` tells; a second one, or the end of
    ``stopping.patience``, ends the process at once.
    """
    from twisted.internet import reactor as installed

    # The modules loaded now stay, so the garbage collector need not scan them every hundred thousand messages.
    gc.freeze()
    reactor: Any = installed
    use_monotonic_time(reactor)
    stop = stopping or Stopping()
    ended: list[object] = []
    signalled: list[int] = []
    ends_at_once = False
    running: Deferred[None] = Deferred()

    def start() -> None:
        tell_warnings(complain)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, interrupt)
        nonlocal running
        running = Deferred.fromCoroutine(work(reactor))
        running.addBoth(finish)

    def interrupt(number: int, _frame: object) -> None:
        signalled.append(number)
        if len(signalled) == 1:
            reactor.callFromThread(cancel, number)
        else:
            end_at_once(number)

    def cancel(number: int) -> None:
        if not ended:
            stop.begin(reactor, number, partial(end_at_once, number))
            running.cancel()

    def end_at_once(number: int) -> None:
        nonlocal ends_at_once
        try:
            if not ends_at_once:  # a third signal ends the last words, which may wait for a terminal
                ends_at_once = True
                clear_progress()
                stop.last_words()
                if sys.stderr.isatty():
                    os.write(sys.stderr.fileno(), _SHOW_CURSOR)
        finally:
            os._exit(SIGNALLED + number)

    def finish(result: object) -> None:
        stop.end()
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
