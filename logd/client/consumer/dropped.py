"""Notices what an application has dropped without closing it: nothing would ever read it again, or give it back.

What the client itself holds (timers, connections, Deferreds) is the inside of a stream or consumer. The application has
a small object over that; once that object is gone, so is whoever could have read, and the inside is told.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.logger import Logger

from logd.interfaces import Clock

E = TypeVar("E", bound=BaseException)


def when_dropped(
    handle: object, clock: Clock, call: Callable[..., None], *args: object
) -> weakref.finalize[[Clock, Callable[..., None], tuple[object, ...]], Any]:
    """See to it that ``call(*args)`` is called on the reactor's thread once nothing refers to ``handle``.

    Neither ``call`` nor ``args`` may lead to ``handle``. Call what is returned to have that done now; it is done once.
    An object that is there when the process ends does not count as dropped.
    """
    dropped = weakref.finalize(handle, _tell, clock, call, args)
    dropped.atexit = False
    return dropped


def _tell(clock: Clock, call: Callable[..., None], args: tuple[object, ...]) -> None:
    """Hop to the reactor: this runs wherever the last reference went, on any thread, also amid a collection."""
    hop: Callable[..., object] | None = getattr(clock, "callFromThread", None)
    if hop is None:  # a clock without threads
        clock.callLater(0, call, *args)
    else:
        hop(call, *args)


class DroppedStreams:
    """Says in the log which streams were dropped."""

    _log = Logger()

    def warn(self, topic: str, group: str | None) -> None:
        """Say that a stream was dropped that was not closed."""
        if group is None:
            self._log.warn(
                "a stream of topic {topic} was dropped without being closed; nothing more is fetched for it. Use the "
                'consumer in a block of "async with" ("with" where it blocks), or call close()',
                topic=topic,
            )
        else:
            self._log.warn(
                "a stream of topic {topic} in group {group} was dropped without being closed: what was handled is "
                "committed, and its partitions go to others. Use the consumer in a block of \"async with\" (\"with\" "
                "where it blocks), or call close()",
                topic=topic, group=group,
            )  # fmt: skip


def afresh(error: E) -> E:
    """Return an error that says the same as one that is kept.

    Raised itself, the kept one would have a traceback, and so keep the frames, and the stream, of whoever caught it.
    """
    copied = type(error).__new__(type(error), *error.args)
    copied.__dict__.update(error.__dict__)
    copied.__cause__ = error.__cause__
    return copied
