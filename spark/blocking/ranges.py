"""Ranges of ids, one for each task, and the splitting of large ranges at entry boundaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import frozen

#: Bytes of log that one task reads unless it is set otherwise.
DEFAULT_RANGE_BYTES = 64 << 20
#: Positions asked about in one request.
_POSITIONS_AT_A_TIME = 1000


@frozen(order=True)
class IdRange:
    """The messages of one partition with positions in [start, end); ``uuid`` distinguishes the topic from a later one.

    Adjacent ranges share no message and leave none out: a message across ``end`` (a position inside an entry) belongs
    to the range that begins there.
    """

    topic: str
    uuid: str
    partition: int
    start: int
    end: int

    @property
    def bytes(self) -> int:
        """Bytes of log between start and end."""
        return max(self.end - self.start, 0)

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}, ids {self.start} to {self.end}"


#: Asks for the entry boundary at or before each position of a partition: (topic, partition, positions) -> boundaries.
FindBoundaries = Callable[[str, int, Sequence[int]], Sequence[int]]


def split_ranges(
    ranges: Iterable[IdRange],
    find_boundaries: FindBoundaries,
    *,
    max_bytes: int = DEFAULT_RANGE_BYTES,
    at_least: int = 1,
) -> list[IdRange]:
    """Split ranges at entry boundaries into pieces of at most about ``max_bytes``, and at least ``at_least`` in all.

    Empty ranges are left out. There are fewer pieces if there are not enough entries. Raises as ``find_boundaries``.
    """
    whole = [each for each in ranges if each.bytes]
    total = sum(each.bytes for each in whole)
    piece = max(min(max_bytes, -(-total // max(at_least, 1))), 1)
    pieces: list[IdRange] = []
    for each in whole:
        targets = cut_targets(each, piece)
        boundaries: list[int] = []
        for at in range(0, len(targets), _POSITIONS_AT_A_TIME):
            asked = targets[at : at + _POSITIONS_AT_A_TIME]
            boundaries += find_boundaries(each.topic, each.partition, asked)
        pieces += cut(each, boundaries)
    return pieces


def cut_targets(whole: IdRange, piece_bytes: int) -> list[int]:
    """Positions that cut a range into equal pieces of at most ``piece_bytes``; no boundaries yet."""
    count = -(-whole.bytes // piece_bytes)
    return [whole.start + whole.bytes * number // count for number in range(1, count)]


def cut(whole: IdRange, boundaries: Iterable[int]) -> list[IdRange]:
    """Cut a range at those boundaries that lie inside it."""
    inside = sorted({boundary for boundary in boundaries if whole.start < boundary < whole.end})
    starts = [whole.start, *inside]
    ends = [*inside, whole.end]
    return [
        IdRange(whole.topic, whole.uuid, whole.partition, start, end) for start, end in zip(starts, ends, strict=True)
    ]
