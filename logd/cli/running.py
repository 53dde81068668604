"""Runs one command's coroutine on the reactor, and turns how it ended into a line on stderr and an exit status.

==== ========================================================================
   0 done
   1 failed: the line on stderr says what
   2 the command line makes no sense
   3 no broker could be reached, or the connection was lost for good
 130 interrupted (SIGINT); 143 terminated (SIGTERM)
 141 whoever read the output went away
==== ========================================================================
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from traceback import print_exception
from typing import Any

import click
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logd.cli.rendering import escape_controls
from logd.client.warnings import tell_warnings
from logd.errors import BrokerUnavailable, CannotConnect, ConfigurationError, LogdError, UnknownTopic, WrapperTooLarge
from logd.net.monotonic import use_monotonic_time

OK = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
#: A process that a signal ends has this plus the signal's number as its status, as shells count.
SIGNALLED = 128

#: What a command does: given the reactor, a coroutine.
Work = Callable[[Any], Coroutine[Deferred[Any], Any, None]]


def status_of(error: BaseException) -> int:
    """The exit status for what a command failed with."""
    if isinstance(error, BrokenPipeError):
        return SIGNALLED + signal.SIGPIPE
    if isinstance(error, click.Abort):
        return SIGNALLED + signal.SIGINT
    if isinstance(error, ConfigurationError):
        return USAGE
    if isinstance(error, BrokerUnavailable):
        return UNREACHABLE
    if isinstance(error, LogdError) and isinstance(error.__cause__, LogdError):
        return status_of(error.__cause__)
    return FAILED


def complain(text: str) -> None:
    """One line on stderr, under the command's name."""
    # Words of a broker, or of whoever named a topic, may be in it: a terminal must not obey them.
    print(f"logd: {escape_controls(text.encode('utf-8', 'backslashreplace')).decode()}", file=sys.stderr)


def report(error: BaseException) -> None:
    """Say what went wrong: one line for what is foreseen, a traceback for what is not."""
    if isinstance(error, BrokenPipeError):
        return
    if isinstance(error, click.Abort):
        complain("interrupted; nothing was done")
    elif isinstance(error, UnknownTopic) and "logd topics list" not in str(error):
        complain(f"{error}: `logd topics list` shows those that there are")
    elif isinstance(error, LogdError):
        complain(f"{error}{_remedy(error)}")
    else:
        print_exception(error, file=sys.stderr)


def _remedy(error: BaseException | None) -> str:
    """Return the end of the sentence: what a person at a command line can do about an error or its causes."""
    while error is not None:
        if isinstance(error, CannotConnect):
            return "; does a broker run there? `logd broker --data DIR` starts one"
        if isinstance(error, WrapperTooLarge) and error.setting.startswith("max_"):
            return f" (--{error.setting.replace('_', '-')})"
        error = error.__cause__
    return ""


def run(work: Work) -> int:
    """Run ``work(reactor)`` to its end and return the exit status. Can be called once in a process."""
    from twisted.internet import reactor as installed

    # What is loaded now stays: the garbage collector need not look at it again for every hundred thousand messages.
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
            os._exit(SIGNALLED + number)  # asked twice: whatever the first one waits for, do not wait for it
        signalled.append(number)
        # Looked up when the reactor comes to it: a signal in the first turn of the work may be here before ``running``.
        reactor.callFromThread(lambda: running.cancel())

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
