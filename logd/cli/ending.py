"""Runs a command that needs no reactor, and turns how it ended into a line on stderr and an exit status."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping

from logd.cli.running import FAILED, OK, SIGNALLED, complain, report, status_of
from logd.errors import LogdError


class Signalled(BaseException):
    """SIGINT or SIGTERM: raised wherever the command is, so that what it holds is let go of.

    Not KeyboardInterrupt, for which py4j logs a traceback on its way.
    """

    def __init__(self, number: int) -> None:
        self.number = number


_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def ended(work: Callable[[], None], said: str, statuses: Mapping[str, int] | None = None) -> int:
    """Run ``work`` and return the exit status.

    ``said`` stands behind the name of a signal that ended it; ``statuses`` has those of errors by the names of their
    classes, which the command may not import before it runs.
    """

    def end(number: int, frame: object) -> None:
        raise Signalled(number)

    before = {number: signal.signal(number, end) for number in _WORDS}
    try:
        work()
    except Signalled as signalled:
        complain(f"{_WORDS[signal.Signals(signalled.number)]}{said}")
        return SIGNALLED + signalled.number
    except KeyboardInterrupt:  # from a handler that pyspark sets while it starts
        complain(f"interrupted{said}")
        return SIGNALLED + signal.SIGINT
    except BrokenPipeError:
        return SIGNALLED + signal.SIGPIPE
    except LogdError as error:
        report(error)
        return (statuses or {}).get(type(error).__name__) or status_of(error)
    except OSError as error:
        complain(str(error))
        return FAILED
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return OK
