"""Places of one partition that could not be read a moment ago.

An answer's length is promised before its bytes are read, so a sector that fails takes the connection with it, and with
that every other partition that the peer reads there. Once is enough: for a while answers stop short of the place, and
who asks for it gets an error for this partition alone.
"""

from __future__ import annotations

from attrs import define, field

from logd.errors import UnknownError

#: Seconds until the disk is asked again: it may have been a network's or a controller's hiccup.
AGAIN_AFTER = 30.0
#: Places remembered of one partition; of more the oldest are forgotten, which costs somebody a connection.
MOST = 64


@define(eq=False)
class UnreadablePlaces:
    """Owner thread only. Falsy while there is nothing to look out for."""

    #: Offset -> until when it counts, and why.
    _places: dict[int, tuple[float, str]] = field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self._places)

    def note(self, offset: int, reason: str, now: float) -> bool:
        """Remember a place; return whether it was not known."""
        new = self._places.pop(offset, None) is None
        self._places[offset] = (now + AGAIN_AFTER, reason)
        if len(self._places) > MOST:
            del self._places[next(iter(self._places))]
        return new

    def clear(self) -> None:
        """Forget them: the files are others."""
        self._places.clear()

    def clip(self, offset: int, end: int, now: float) -> int:
        """Return how far of ``[offset, end)`` can be read; raise UnknownError when nothing can."""
        for place, (until, reason) in list(self._places.items()):
            if until <= now:
                del self._places[place]
            elif place == offset:
                raise UnknownError(f"cannot read at offset {offset}: {reason}")
            elif offset < place < end:
                end = place
        return end
