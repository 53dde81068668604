"""The partitions of one broker to be fetched together, so that a step costs by what moves and not by what is watched.

Partitions that are *behind*, whose logs are known to have more, are fetched first: the broker answers at once. Requests
for the others may wait there, so some of the connection's requests are kept from them: a reader far behind the end in
some partitions would otherwise stop until a wait for others is over.

A request that waits is answered whole as soon as one of its partitions has something. So partitions that brought bytes
the last time are fetched apart from the idle ones: their answers are small. The idle ones share a few large requests,
which are repeated at a bounded rate, since each answer carries all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from attrs import define, field

from logd.backoff import Backoff
from logd.client.consumer.fetching.fetch_window import Wanted
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.clientcore.metadata import TopicView
from logd.protocol.requests.requests import MAX_ITEMS

if TYPE_CHECKING:
    from logd.client.cluster.link import BrokerLink
    from logd.client.consumer.fetching.client_session import ClientFetchSession

#: Partitions that one request may hold in any case: up to this number, idle and moving ones are fetched together.
SMALL = 100
#: Large requests over which all idle partitions are spread.
LARGE_REQUESTS = 16
#: Requests in flight on one connection: well below a broker's ``connection.requests``, 100 by default.
MOST_REQUESTS = 32
#: Of these, the requests that may wait at the broker, if there are more than SMALL partitions.
MOST_WAITING = 24
#: Idle partitions asked for again in a second: while others of their requests move, and while none moves. Each costs
#: client and broker some 10 us.
IDLE_RATE = 20_000
QUIET_RATE = 5_000
#: Seconds for which partitions at the ends of their logs are gathered at most, while others of the broker are behind.
#: They would be asked for in small requests otherwise, and those that are behind come first.
GATHER_SECONDS = 0.02
#: The part of the longest wait that a request with few partitions waits at least. After reading to the ends of many
#: logs there are many such requests; their partitions soon join in large ones.
LEAST_WAIT = 0.1


@define(eq=False)
class FetchEntry:
    """A partition fetch, with the fetcher's state for it."""

    fetch: PartitionFetch
    #: Called with those of the answer's partitions that have something to take; a stream has one for all of its own.
    arrived: Callable[[Sequence[PartitionFetch]], None]
    backoff: Backoff
    #: True while the entry waits for metadata, a position or a delay.
    held_up: bool = field(default=False)
    #: True when the last answer brought nothing, and there was nothing to bring.
    idle: bool = field(default=False)
    #: The bytes that are counted for it.
    claimed: int = field(default=0)
    #: The plan that the entry is queued in, if any.
    plan: FetchPlan | None = field(default=None, repr=False)
    #: The broker to fetch from, and the metadata by which the partition is this topic's and led there.
    link: BrokerLink | None = field(default=None, repr=False)
    view: TopicView | None = field(default=None, repr=False)
    #: The fetch session that knows the partition, and its number there.
    session: ClientFetchSession | None = field(default=None, repr=False)
    number: int = field(default=-1)
    #: The fetch that the session's broker owes an answer for, the epoch of its request, and whether it was behind.
    armed: Wanted | None = field(default=None)
    armed_epoch: int = field(default=-1)
    armed_behind: bool = field(default=False)


@define(eq=False)
class FetchPlan:
    """The entries of one broker to be fetched, and the number of requests in flight. No I/O, no clock."""

    under_way: int = 0
    #: The requests in flight that may wait at the broker.
    waiting: int = 0
    #: The time from which idle entries may be fetched (the clock's seconds).
    idle_from: float = 0.0
    #: The time from which moving entries are fetched beside others that are behind; None while there are none.
    _moving_from: float | None = None
    _behind: dict[FetchEntry, None] = field(factory=dict)
    _moving: dict[FetchEntry, None] = field(factory=dict)
    _idle: dict[FetchEntry, None] = field(factory=dict)

    def add(self, entry: FetchEntry) -> None:
        """Queue an entry, behind the others of its kind."""
        if entry.plan is None:
            entry.plan = self
            line = self._behind if entry.fetch.behind else self._idle if entry.idle else self._moving
            line[entry] = None

    def discard(self, entry: FetchEntry) -> None:
        """Remove an entry, if it is queued here."""
        if entry.plan is self:
            entry.plan = None
            self._behind.pop(entry, None)
            self._moving.pop(entry, None)
            self._idle.pop(entry, None)

    @property
    def has_any(self) -> bool:
        """Return whether any entry is queued."""
        return bool(self._behind or self._moving or self._idle)

    def next_time(self) -> float | None:
        """Return the time at which queued entries may be fetched that only its passing releases; None without any."""
        if self.under_way >= MOST_REQUESTS or self.waiting >= MOST_WAITING:
            return None
        times = [self._moving_from] if self._moving and self._moving_from is not None else []
        return min(times + [self.idle_from] * bool(self._idle), default=None)

    def begin(self, waits: bool) -> None:
        """Count a request that is sent; ``waits`` says whether the broker may hold it back."""
        self.under_way += 1
        self.waiting += waits

    def end(self, waits: bool) -> None:
        """Count a request that was answered or has failed."""
        self.under_way -= 1
        self.waiting -= waits

    def take(self, now: float, watched: int, room: int, enough: int = 1) -> list[list[FetchEntry]]:
        """Take the entries to be fetched now out of the queues: a list for each request.

        ``watched`` is the number of partitions of the consumer. Of more than SMALL, at most ``room`` of those behind
        are taken; see ``_room_behind``.
        """
        free = MOST_REQUESTS - self.under_way
        if watched <= SMALL:
            return self._cut({**self._behind, **self._moving, **self._idle}, SMALL, free)
        most = most_partitions(watched)
        requests = self._cut(self._behind, most, free, self._room_behind(room, enough, self.under_way > self.waiting))
        behind = bool(requests)
        free = min(free - len(requests), MOST_WAITING - self.waiting)
        if self._idle and now >= self.idle_from:
            idle = self._cut(self._idle, most, free)
            self.idle_from = now + sum(map(len, idle)) / IDLE_RATE
            requests += idle
            free -= len(idle)
        if self._moving and self._may_move(now, behind):
            requests += self._cut(self._moving, most, free)
        return requests

    def take_for_session(
        self, now: float, watched: int, room: int, free: int, owed: int, enough: int = 1
    ) -> list[list[FetchEntry]]:
        """Take the entries for the next requests of a fetch session: those behind in pieces, all others together.

        At most ``room`` of those behind are taken, while ``owed`` answers are to come for others behind; see
        ``_room_behind``. While some are behind, the others are gathered. ``free`` is the number of requests that may be
        sent.
        """
        requests = self._cut(self._behind, most_partitions(watched), free, self._room_behind(room, enough, bool(owed)))
        if (self._moving or self._idle) and len(requests) < free and self._may_move(now, bool(requests or owed)):
            requests += self._cut({**self._moving, **self._idle}, MAX_ITEMS, 1)
        return requests

    def gathered_at(self) -> float | None:
        """Return the time at which entries that are gathered are to be fetched; None without any."""
        return self._moving_from if self._moving or self._idle else None

    def take_all(self) -> list[FetchEntry]:
        """Take all entries out of the queues."""
        entries = [*self._behind, *self._moving, *self._idle]
        for entry in entries:
            self.discard(entry)
        return entries

    def _room_behind(self, room: int, enough: int, owed: bool) -> int:
        """Return the number of entries behind that may be fetched, if there is memory for ``room`` of them.

        While an answer is ``owed``, which makes more room, there are none before ``enough`` may be fetched together.
        Otherwise each answer, and each piece that is read, would make room for a few, their answer for a few again, and
        so on until each request is for one or two. If none is owed, there may be any number.
        """
        if not owed:
            return room or len(self._behind)
        return room if room >= min(enough, len(self._behind)) else 0

    def _may_move(self, now: float, sending: bool) -> bool:
        """Return whether moving entries may be fetched now: none are behind, or they were gathered long enough."""
        if not sending and not self._behind and self.under_way == self.waiting:
            self._moving_from = None
            return True
        if self._moving_from is None:
            self._moving_from = now + GATHER_SECONDS
        if now < self._moving_from:
            return False
        self._moving_from = None
        return True

    def _cut(self, line: dict[FetchEntry, None], most: int, free: int, room: int = MAX_ITEMS) -> list[list[FetchEntry]]:
        """Take entries from the front of a queue, at most ``room``, up to ``most`` for each of ``free`` requests."""
        entries = list(islice(line, min(max(0, free) * most, room)))
        for entry in entries:
            self.discard(entry)
        requests = -(-len(entries) // most)
        each = -(-len(entries) // max(1, requests))  # about equal: a last one of a few costs as much as the others
        return [entries[at : at + each] for at in range(0, len(entries), max(1, each))]


def most_partitions(watched: int) -> int:
    """Return the number of partitions that one request holds at most, of a consumer of ``watched`` partitions."""
    return min(max(SMALL, -(-watched // LARGE_REQUESTS)), MAX_ITEMS)


def longest_wait(max_wait: float, watched: int, asked: int) -> float:
    """Return the seconds that a broker may hold back a fetch of ``asked`` partitions of ``watched``.

    That is ``max_wait``, longer with thousands of partitions. Requests for few of many partitions wait a part of it: no
    more partitions are asked for in a second.
    """
    if watched <= SMALL:
        return max_wait
    return max(max_wait, watched / QUIET_RATE) * min(1.0, max(LEAST_WAIT, asked / most_partitions(watched)))
