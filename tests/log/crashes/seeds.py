"""The order in which seeds are tried."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain


def seeds_from(hint: int, count: int) -> Iterator[int]:
    """Return the seeds below ``count``, from ``hint`` on and then those in front of it.

    The hint is the seed that found the thing last, so that a search of some thousand lives is one of a few. It may
    have become wrong, since any change of the order of calls moves the seeds: the search then takes longer, and no
    test fails.
    """
    return chain(range(hint, count), range(min(hint, count)))
