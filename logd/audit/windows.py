"""Windows: the spans of time, of one width, by which messages are counted."""

from __future__ import annotations

#: The default width, in ms.
DEFAULT_WIDTH = 60_000
#: The largest width, a day, in ms: a window is not judged before it has ended.
MOST_WIDTH = 24 * 60 * 60 * 1000


def window_of(time: int, width: int) -> int:
    """Return the start of the window, of ``width`` ms, in which ``time`` lies (ms since the epoch)."""
    return time - time % width


def check_width(width: int) -> int:
    """Return ``width`` if it is one that windows may have, in ms; raise ValueError."""
    if type(width) is not int or not 0 < width <= MOST_WIDTH:
        raise ValueError(f"a window is from 1 to {MOST_WIDTH} ms wide, not {width!r}")
    return width
