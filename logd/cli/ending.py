"""Runs a command that needs no reactor, and turns how it ended into a line on stderr and an exit status."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping

from logd.cli.running import FAILED, OK, SIGNALLED, complain, report, status_of
from logd.errors import LogdError


class Terminated(BaseException):
    """SIGTERM: raised wherever the command is, so that what it holds is let go of."""


def ended(work: Callable[[], None], said: str, statuses: Mapping[str, int] | None = None) -> int:
    """Run ``work`` and return the exit status.

    ``said`` stands behind the name of a signal that ended it; ``statuses`` has those of errors by the names of their
    classes, which the command may not import before it runs.
    """

    def terminate(number: int, frame: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        work()
    except KeyboardInterrupt:
        complain(f"interrupted{said}")
        return SIGNALLED + signal.SIGINT
    except Terminated:
        complain(f"terminated{said}")
        return SIGNALLED + signal.SIGTERM
    except BrokenPipeError:
        return SIGNALLED + signal.SIGPIPE
    except LogdError as error:
        report(error)
        return (statuses or {}).get(type(error).__name__) or status_of(error)
    except OSError as error:
        complain(str(error))
        return FAILED
    finally:
        signal.signal(signal.SIGTERM, before)
    return OK
