"""Exit statuses of the commands, and the line on stderr that says what went wrong.

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

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import print_exception

import click

from logd.cli.terminal.rendering import escape_controls
from logd.errors import BrokerUnavailable, CannotConnect, ConfigurationError, LogdError, UnknownTopic, WrapperTooLarge

OK = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
#: A process that a signal ends has this plus the signal's number as its status, as shells count.
SIGNALLED = 128


def status_of(error: BaseException) -> int:
    """Return the exit status for what a command failed with."""
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
    """Print one line on stderr, under the command's name."""
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


@contextmanager
def exit_on_error() -> Iterator[None]:
    """End the process with one line and a status at an error of the system or of logd, or an interruption."""
    try:
        yield
    except BrokenPipeError:
        sys.exit(SIGNALLED + signal.SIGPIPE)
    except OSError as error:
        complain(str(error))
        sys.exit(FAILED)
    except LogdError as error:
        complain(str(error))
        sys.exit(status_of(error))
    except (KeyboardInterrupt, click.Abort):
        complain("interrupted")
        sys.exit(SIGNALLED + signal.SIGINT)
