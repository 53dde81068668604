"""Decides on which brokers the partitions of a new topic are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field


@define(eq=False)
class Placement:
    """One broker after the other, beginning at another one for each topic, so that all get their share."""

    #: This broker's id: it takes part, registered or not.
    _me: int
    #: Ids of the brokers that are live.
    _live: Callable[[], Iterable[int]]
    _at: int = field(kw_only=True)

    def of(self, partitions: int) -> dict[int, tuple[int, ...]]:
        """Return the brokers of each partition of the next topic."""
        brokers = sorted({*self._live(), self._me})
        self._at += 1
        return {number: (brokers[(self._at + number) % len(brokers)],) for number in range(partitions)}
