"""Detection of streams and consumers that an application has dropped without closing them.

The client itself (timers, connections, Deferreds) holds only the state of a stream or consumer. The application has a
small object over that state; once that object is gone, nobody can read any more, and the state is told.
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
    """Arrange that ``call(*args)`` is called on the reactor's thread once nothing refers to ``handle``.

    Neither ``call`` nor ``args`` may refer to ``handle``. Calling the returned object makes the call now; it is made
    once. An object that is alive when the process ends does not count as dropped.
    """
    dropped = weakref.finalize(handle, _tell, clock, call, args)
    dropped.atexit = False
    return dropped


def _tell(clock: Clock, call: Callable[..., None], args: tuple[object, ...]) -> None:
    """Hop to the reactor: the last reference may go on any thread, also amid a collection."""
    hop: Callable[..., object] | None = getattr(clock, "callFromThread", None)
    if hop is None:  # a clock without threads
        clock.callLater(0, call, *args)
    else:
        hop(call, *args)


class DroppedStreams:
    """Warnings in the log about dropped streams."""

    _log = Logger()

    def warn(self, topic: str, group: str | None) -> None:
        """Log that a stream was dropped without being closed."""
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
    """Return a copy of an error that is kept, to be raised.

    The kept one would get a traceback when raised, and so keep the frames of those that caught it, and their stream.
    """
    copied = type(error).__new__(type(error), *error.args)
    copied.__dict__.update(error.__dict__)
    copied.__cause__ = error.__cause__
    return copied
