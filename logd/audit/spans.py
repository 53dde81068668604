"""Spans of positions in partitions, and their unions."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen


@frozen
class Span:
    """The positions that counted messages own in one partition: those of the first and of the last message included."""

    partition: int
    first: int
    last: int


def widen(
    first: dict[int, int], last: dict[int, int], more_first: Mapping[int, int], more_last: Mapping[int, int]
) -> None:
    """Take more spans of positions into those from ``first`` to ``last``, by partition."""
    for partition, at in more_first.items():
        first[partition] = min(first.get(partition, at), at)
    for partition, at in more_last.items():
        last[partition] = max(last.get(partition, at), at)
