"""Bounds of what waits for messages: partitions in waiting fetches and in fetch sessions, each some 500 bytes."""

from __future__ import annotations

from logd.broker.counters import Counters

#: Partitions that all connections together may have waiting.
MOST_IN_ALL = 200_000
#: Partitions that the fetches of one connection may have waiting: more than any consumer reads.
MOST_OF_CONNECTION = 50_000
#: Partitions that each connection may have waiting even when all together have too many, so that the many partitions
#: of some clients do not keep others from waiting.
ALWAYS = 1000


def may_wait(counters: Counters, of_connection: int, more: int) -> bool:
    """Return whether a connection with so many waiting partitions may have ``more``."""
    return of_connection + more <= ALWAYS or counters.session_parts + counters.waiting_parts + more <= MOST_IN_ALL
