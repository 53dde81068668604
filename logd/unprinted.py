"""Errors that end a process and are in its log already: the interpreter does not print them a second time."""

from __future__ import annotations

import sys
from types import TracebackType


def leave_unprinted(said: BaseException) -> None:
    """Have the interpreter print nothing if the process ends because of ``said``; the status stays 1."""
    print_error = sys.excepthook

    def print_others(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if error is not said:
            print_error(kind, error, traceback)

    sys.excepthook = print_others
