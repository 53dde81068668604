"""Runs the work of a command that needs no reactor, and turns its end into a line on stderr and an exit status."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Mapping

from logd.cli.terminal.exits import FAILED, OK, SIGNALLED, complain, report, status_of
from logd.errors import LogdError


class Signalled(KeyboardInterrupt):
    """SIGINT or SIGTERM: raised wherever the command is, so that what it holds is let go of.

    A KeyboardInterrupt, since on that py4j closes the line whose answer it was waiting for. On anything else it would
    ask its next question there, such as pyspark has on the way out of a query, and wait for the query's end.
    """

    def __init__(self, number: int) -> None:
        self.number = number


_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def run_blocking(work: Callable[[], None], said: str, statuses: Mapping[str, int] | None = None) -> int:
    """Run ``work`` and return the exit status.

    ``said`` stands behind the name of a signal that ended it; ``statuses`` has those of errors by the names of their
    classes, which the command may not import before it runs.
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
        # What fails once a signal has come fails by it: pyspark's way out may raise an error of its own.
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
    """What py4j raises, an interruption too, it logs before, with the whole stack, partly under nobody's name."""
    return record.module != "java_gateway"
