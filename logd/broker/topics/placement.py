"""The placement of a new topic's partitions on brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field


@define(eq=False)
class Placement:
    """Places partitions round-robin, beginning at another broker for each topic, so that all get their share."""

    #: This broker's id; it gets partitions whether registered or not.
    _me: int
    #: Returns the ids of the live brokers.
    _live: Callable[[], Iterable[int]]
    _at: int = field(kw_only=True)

    def of(self, partitions: int) -> dict[int, tuple[int, ...]]:
        """Return the broker of each partition of the next topic, as a tuple of one id."""
        brokers = sorted({*self._live(), self._me})
        self._at += 1
        return {number: (brokers[(self._at + number) % len(brokers)],) for number in range(partitions)}
