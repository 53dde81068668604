"""The partitions of one broker to be fetched together, so that a step costs by what moves and not by what is watched.

A request that waits is answered whole as soon as one of its partitions has something. So partitions that brought bytes
the last time are fetched apart from the idle ones: their answers are small. The idle ones share a few large requests,
which are repeated at a bounded rate, since each answer carries all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from attrs import define, field

from logd.backoff import Backoff
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.protocol.requests.requests import MAX_ITEMS

#: Partitions that one request may hold in any case: up to this number, idle and moving ones are fetched together.
SMALL = 100
#: Large requests over which all idle partitions are spread.
LARGE_REQUESTS = 16
#: Requests in flight on one connection: well below a broker's ``connection.requests``, 100 by default.
MOST_REQUESTS = 32
#: Idle partitions asked for again in a second: while others of their requests move, and while none moves. Each costs
#: client and broker some 10 us.
IDLE_RATE = 20_000
QUIET_RATE = 5_000


@define(eq=False)
class FetchEntry:
    """A partition fetch, with the fetcher's state for it."""

    fetch: PartitionFetch
    arrived: Callable[[PartitionFetch], None]
    backoff: Backoff
    #: True while the entry waits for metadata, a position or a delay.
    held_up: bool = field(default=False)
    #: True when the last answer brought nothing, and there was nothing to bring.
    idle: bool = field(default=False)
    #: The plan that the entry is queued in, if any.
    plan: FetchPlan | None = field(default=None)


@define(eq=False)
class FetchPlan:
    """The entries of one broker to be fetched, and the number of requests in flight. No I/O, no clock."""

    under_way: int = 0
    #: The time from which idle entries may be fetched (the clock's seconds).
    idle_from: float = 0.0
    _moving: dict[FetchEntry, None] = field(factory=dict)
    _idle: dict[FetchEntry, None] = field(factory=dict)

    def add(self, entry: FetchEntry) -> None:
        """Queue an entry, behind the others of its kind."""
        if entry.plan is None:
            entry.plan = self
            (self._idle if entry.idle else self._moving)[entry] = None

    def discard(self, entry: FetchEntry) -> None:
        """Remove an entry, if it is queued here."""
        if entry.plan is self:
            entry.plan = None
            self._moving.pop(entry, None)
            self._idle.pop(entry, None)

    @property
    def has_any(self) -> bool:
        """Return whether any entry is queued."""
        return bool(self._moving or self._idle)

    @property
    def waits_for_time(self) -> bool:
        """Return whether idle entries are queued that only the passing of time releases."""
        return bool(self._idle) and self.under_way < MOST_REQUESTS

    def take(self, now: float, watched: int) -> list[list[FetchEntry]]:
        """Take the entries to be fetched now out of the queues: a list for each request.

        ``watched`` is the number of partitions of the consumer.
        """
        if watched <= SMALL:
            return self._cut({**self._moving, **self._idle}, SMALL)
        most = min(max(SMALL, -(-watched // LARGE_REQUESTS)), MAX_ITEMS)
        requests = []
        if self._idle and now >= self.idle_from:
            requests = self._cut(self._idle, most)
            self.idle_from = now + sum(map(len, requests)) / IDLE_RATE
        return requests + self._cut(self._moving, most, len(requests))

    def take_all(self) -> list[FetchEntry]:
        """Take all entries out of the queues."""
        entries = [*self._moving, *self._idle]
        for entry in entries:
            self.discard(entry)
        return entries

    def _cut(self, line: dict[FetchEntry, None], most: int, taken: int = 0) -> list[list[FetchEntry]]:
        """Take entries from the front of a queue, up to ``most`` for each request that may still be sent."""
        free = max(0, MOST_REQUESTS - self.under_way - taken)
        entries = list(islice(line, free * most))
        for entry in entries:
            self.discard(entry)
        return [entries[at : at + most] for at in range(0, len(entries), most)]


def longest_wait(max_wait: float, watched: int) -> float:
    """Return the seconds that a broker may hold a fetch back: ``max_wait``, longer with thousands of partitions."""
    return max(max_wait, watched / QUIET_RATE) if watched > SMALL else max_wait
