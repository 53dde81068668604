"""Exit statuses of the commands, and the line on stderr that says what went wrong.

==== ========================================================================
   0 success
   1 failure: the line on stderr says which
   2 usage error in the command line
   3 no broker could be reached, or the connection was lost for good
 130 interrupted (SIGINT); 143 terminated (SIGTERM)
 141 the reader of the output closed the pipe
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
from logd.coord.errors import NoAuth
from logd.errors import (
    BrokerUnavailable,
    CannotConnect,
    ConfigurationError,
    LogdError,
    NothingHeard,
    UnknownTopic,
    WrapperTooLarge,
)

OK = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
#: A process ended by a signal has this plus the signal's number as its status, as in a shell.
SIGNALLED = 128


def status_of(error: BaseException) -> int:
    """Return the exit status for the error of a command."""
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
    """Print one line on stderr, after the command's name."""
    # The text may contain words of a broker or the name of a topic: a terminal must not obey them.
    print(f"logd: {escape_controls(text.encode('utf-8', 'backslashreplace')).decode()}", file=sys.stderr)


def report(error: BaseException) -> None:
    """Print an error: one line for an expected one, a traceback for any other."""
    if isinstance(error, BrokenPipeError):
        return
    if isinstance(error, click.Abort):
        complain("interrupted; nothing was done")
    elif isinstance(error, UnknownTopic) and "logd topics list" not in str(error):
        complain(f"{error}: `logd topics list` shows the existing ones")
    elif isinstance(error, LogdError):
        remedy = _remedy(error)
        complain(f"{str(error).rstrip('.') if remedy else error}{remedy}")
    elif isinstance(error, OSError):
        complain(str(error))
    else:
        print_exception(error, file=sys.stderr)


def _remedy(error: BaseException | None) -> str:
    """Return the end of the sentence: the remedy for an error or one of its causes."""
    while error is not None:
        if isinstance(error, CannotConnect):
            return "; is a broker running there? `logd broker --data DIR` starts one"
        if isinstance(error, NothingHeard):
            return "; is that the address of its setting `listen`? Another port has another protocol"
        if isinstance(error, NoAuth):
            return (
                ": it belongs to clients with other credentials: give the brokers' in LOGD_ZOOKEEPER_DIGEST_FILE "
                "(zookeeper.digest.file); `logd tree status` shows what is protected"
            )
        if isinstance(error, WrapperTooLarge) and error.setting.startswith("max_"):
            return f" (--{error.setting.replace('_', '-')})"
        error = error.__cause__
    return ""


@contextmanager
def exit_on_error() -> Iterator[None]:
    """End the process with one line and an exit status on OSError, LogdError or an interruption."""
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
