"""Counts with their nouns, as people read them: 1 partition, 2,000 partitions."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return ``number``, with a comma before each three digits, and its noun.

    ``plural`` is the noun for every number but 1, by default ``noun`` with an s.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
