"""The kinds of damage that the entries of a segment can have, and the remedy for each."""

from __future__ import annotations

from enum import IntEnum

from attrs import frozen


class DamageKind(IntEnum):
    """The kinds of damage, numbered as in docs/protocol.md, request type 22."""

    #: An entry whose length is right and that has a checksum mismatch or is unreadable: a gap of its size replaces it.
    PAYLOAD = 1
    #: A wrong length or an invalid head: a gap replaces everything up to the position where entries continue.
    LENGTH = 2
    #: Flushed bytes are missing at the file's end: the file is lengthened, and a gap fills it.
    SHORT = 3
    #: Nothing shows where entries continue behind it: it is cut off, and only on explicit request.
    UNVOUCHED = 4
    #: Unsound bytes behind the flushed end, of a crash or of an append under way. The next start cuts them off.
    TAIL = 5
    #: Bytes behind the start of the next segment. The next start cuts them off.
    EXCESS = 6
    #: The log's first flushed segments, or all of them, are missing: a file of gaps replaces them.
    MISSING = 7

    @property
    def mendable(self) -> bool:
        """Return whether a repair loses nothing but the damaged bytes."""
        return self <= DamageKind.SHORT or self >= DamageKind.EXCESS

    @property
    def is_wrong(self) -> bool:
        """Return whether the damage is more than the rest of a crash, which the next start handles."""
        return self is not DamageKind.TAIL


@frozen
class Damage:
    """Bytes of one segment's file, from file position ``position`` up to ``position + size``."""

    position: int
    size: int
    kind: DamageKind
    #: The problem, as text.
    reason: str

    @property
    def end(self) -> int:
        """The file position behind the damage."""
        return self.position + self.size
