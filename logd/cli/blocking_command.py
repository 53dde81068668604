"""Runs the work of a command that needs no reactor, and turns its end into a line on stderr and an exit status."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Mapping

from logd.cli.terminal.exits import FAILED, OK, SIGNALLED, complain, report, status_of
from logd.errors import LogdError


class Signalled(KeyboardInterrupt):
    """SIGINT or SIGTERM, raised wherever the command is, so that its resources are released.

    A KeyboardInterrupt makes py4j close the connection on which it waits for an answer. With any other exception it
    would send its next request there, such as pyspark's clean-up after a query, and wait for the end of the query.
    """

    def __init__(self, number: int) -> None:
        self.number = number


_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def run_blocking(work: Callable[[], None], said: str, statuses: Mapping[str, int] | None = None) -> int:
    """Run ``work`` and return the exit status.

    ``said`` is appended to the line that names the signal which ended the work. ``statuses`` maps the class names of
    errors to exit statuses: names, because the command may not import the classes before it runs.
    """

    came: list[int] = []

    def end(number: int, frame: object) -> None:
        came.append(number)
        raise Signalled(number)

    before = {number: signal.signal(number, end) for number in _WORDS}
    quiet = logging.getLogger("py4j")
    propagate, quiet.propagate = quiet.propagate, False
    quiet.addHandler(silence := logging.NullHandler())
    logging.getLogger().addFilter(_is_not_of_py4j)
    try:
        work()
    except (KeyboardInterrupt, LogdError, OSError) as error:
        # A failure after a signal is due to the signal: pyspark's clean-up may raise an error of its own.
        if came or isinstance(error, KeyboardInterrupt):
            number = signal.Signals(came[0] if came else signal.SIGINT)
            complain(f"{_WORDS[number]}{said}")
            return SIGNALLED + number
        if isinstance(error, BrokenPipeError):
            return SIGNALLED + signal.SIGPIPE
        if isinstance(error, LogdError):
            report(error)
            return (statuses or {}).get(type(error).__name__) or status_of(error)
        complain(str(error))
        return FAILED
    finally:
        logging.getLogger().removeFilter(_is_not_of_py4j)
        quiet.removeHandler(silence)
        quiet.propagate = propagate
        for number, handler in before.items():
            signal.signal(number, handler)
    return OK


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Reject records of py4j: it logs each error with its whole stack before raising it, partly on the root logger."""
    return record.module != "java_gateway"
