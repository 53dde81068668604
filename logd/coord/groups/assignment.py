"""Algorithm 1: divides a topic's partitions among the streams of a group. Pure, so that all members agree.

The paper (section 3.2) gives stream i of the sorted streams the partitions from i * N to (i + 1) * N - 1 of the sorted
partitions, where N is |P| / |C|. With a remainder that leaves partitions over, or gives the last stream fewer; here the
first |P| mod |C| streams get one more, so that two shares never differ by more than one partition.
"""

from __future__ import annotations

from collections.abc import Iterable


def assign(partitions: Iterable[int], streams: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Return each stream's partitions, ascending: every partition exactly once, if there is any stream.

    The order and repetitions of the arguments do not matter: partitions sort by number, streams by text.
    """
    numbers = sorted(set(partitions))
    names = sorted(set(streams))
    shares: dict[str, tuple[int, ...]] = {}
    for index, name in enumerate(names):
        begin, end = share_of(index, len(names), len(numbers))
        shares[name] = tuple(numbers[begin:end])
    return shares


def share_of(index: int, streams: int, partitions: int) -> tuple[int, int]:
    """Return the range (start, end) of the sorted partitions that belong to the stream at ``index``."""
    each, more = divmod(partitions, streams)
    begin = each * index + min(index, more)
    return begin, begin + each + (index < more)
