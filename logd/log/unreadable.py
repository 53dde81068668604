"""Positions of one partition where a read failed a moment ago.

A response announces its length before its bytes are read. So a bad sector costs the connection, and with it the fetches
of every other partition there. So that this happens only once, responses stop short of the position for a while, and a
fetch at the position itself fails for this partition alone.
"""

from __future__ import annotations

from attrs import define, field

from logd.errors import UnknownError

#: Seconds until the disk is tried again: the fault may have been temporary, such as one of a network or a controller.
AGAIN_AFTER = 30.0
#: Positions remembered for one partition. Beyond that the oldest is forgotten, which may cost another connection.
MOST = 64


@define(eq=False)
class UnreadablePlaces:
    """The unreadable positions of one partition; falsy while there are none. Owner thread only."""

    #: Position -> time when it is forgotten, and the reason.
    _places: dict[int, tuple[float, str]] = field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self._places)

    def note(self, position: int, reason: str, now: float) -> bool:
        """Remember a position; return whether it is new."""
        new = self._places.pop(position, None) is None
        self._places[position] = (now + AGAIN_AFTER, reason)
        if len(self._places) > MOST:
            del self._places[next(iter(self._places))]
        return new

    def clear(self) -> None:
        """Forget all positions, because the files were replaced."""
        self._places.clear()

    def clip(self, position: int, end: int, now: float) -> int:
        """Return the end of the readable part of ``[position, end)``; raise UnknownError if it is empty."""
        for place, (until, reason) in list(self._places.items()):
            if until <= now:
                del self._places[place]
            elif place == position:
                raise UnknownError(f"cannot read at position {position}: {reason}")
            elif position < place < end:
                end = place
        return end
