"""Errors that end a process and are in its log already: nothing prints them a second time."""

from __future__ import annotations

import sys
from types import TracebackType

#: The errors that are in the log.
_in_log: list[BaseException] = []


def is_in_log(error: BaseException) -> bool:
    """Return whether ``leave_unprinted`` was called for an error."""
    return any(each is error for each in _in_log)


def leave_unprinted(said: BaseException) -> None:
    """Have the interpreter print nothing if the process ends because of ``said``; the status stays 1."""
    _in_log.append(said)
    print_error = sys.excepthook

    def print_others(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if error is not said:
            print_error(kind, error, traceback)

    sys.excepthook = print_others
