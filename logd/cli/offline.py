"""How a command that works on files, without a reactor, ends when something goes wrong: in one line, with a status."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from logd.cli.running import FAILED, SIGNALLED, complain, status_of
from logd.errors import LogdError


@contextmanager
def offline() -> Iterator[None]:
    """End the process for errors that are foreseen: of the operating system, of logd, and interruptions."""
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
