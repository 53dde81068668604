"""The end of a bench by a signal: once, so that a second Ctrl-C does not cut the stopping of systems short."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: The exit status of a command that Ctrl-C ended, as shells have it.
INTERRUPTED = 128 + signal.SIGINT
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_once() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first SIGINT, SIGTERM or SIGHUP, and ignore those that follow.

    For the main thread. The handlers from before are back at the end.
    """

    def end(number: int, frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, end) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
