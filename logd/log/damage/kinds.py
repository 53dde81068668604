"""The kinds of damage that the entries of a segment can have, and the remedy for each."""

from __future__ import annotations

from enum import IntEnum

from attrs import frozen


class DamageKind(IntEnum):
    """The numbers are those of docs/protocol.md, request type 22."""

    #: An entry whose length is true and whose checksum does not hold: a gap of its size takes its place.
    PAYLOAD = 1
    #: A length that is not true, or a head that is none: a gap takes the place of all up to where entries go on.
    LENGTH = 2
    #: Bytes that had been flushed are missing at the file's end: the file is lengthened, and a gap fills it.
    SHORT = 3
    #: Nothing vouches for any place behind it where entries go on: to be cut, and only by somebody who said so.
    UNVOUCHED = 4
    #: Behind all that is known to be flushed: what a crash leaves, or an append under way. The next start cuts it.
    TAIL = 5
    #: The file goes on behind the place where the next segment begins. The next start cuts it.
    EXCESS = 6
    #: The log's first segments that had been flushed, or all of them, are missing: a file of gaps takes their place.
    MISSING = 7

    @property
    def mendable(self) -> bool:
        """Return whether it can be mended so that nothing but the damaged bytes is lost."""
        return self <= DamageKind.SHORT or self >= DamageKind.EXCESS

    @property
    def is_wrong(self) -> bool:
        """Return whether it is more than a crash leaves and the next start makes good."""
        return self is not DamageKind.TAIL


@frozen
class Damage:
    """Bytes ``[position, position + size)`` of one segment's file."""

    position: int
    size: int
    kind: DamageKind
    #: What was found there.
    reason: str

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.position + self.size
