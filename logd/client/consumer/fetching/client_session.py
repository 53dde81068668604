"""A consumer's side of a fetch session with one broker: which partitions it knows, and what it was asked for. No I/O.

Each partition has a number. While it is ``armed``, the broker owes an answer for it; after that answer it is named
again, with the position to go on from. So requests and answers name what has changed and what has arrived alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from logd.client.cluster.link import ClientConnection
from logd.client.consumer.fetching.fetch_plan import FetchEntry
from logd.client.consumer.fetching.fetch_window import Wanted
from logd.clientcore.metadata import TopicView
from logd.protocol.requests.fetch_session import (
    AT_ONCE,
    EXACT,
    FetchWaitResponseV1,
    FetchWaitV1,
    MovedPart,
    NewPart,
    SessionPart,
)

#: An entry, the fetch of it that is answered, and the answer.
Answered = tuple[FetchEntry, Wanted, SessionPart]


class ClientFetchSession:
    """The partitions of one consumer in a fetch session on one connection."""

    def __init__(self, number: int, connection: ClientConnection) -> None:
        self.connection = connection
        #: The requests in flight.
        self.under_way = 0
        #: The partitions that the broker owes an answer for, and those among them that it answers at once.
        self.armed = 0
        self.behind = 0
        #: True once the broker has answered a request: it keeps the session.
        self.accepted = False
        #: The metadata by which partitions of each topic are in this session.
        self.views: dict[str, TopicView | None] = {}
        self._number = number
        self._epoch = -1
        self._entries: dict[int, FetchEntry] = {}
        self._next_part = 0
        self._forgotten: list[int] = []

    @property
    def must_send(self) -> bool:
        """Return whether a request is due without further partitions: to wait for answers, or to forget partitions."""
        return bool(self._forgotten or (self.armed and not self.under_way))

    @property
    def entries(self) -> Sequence[FetchEntry]:
        """Return the entries in the session."""
        return list(self._entries.values())

    def request(self, wants: Sequence[tuple[FetchEntry, Wanted]], max_wait: float, max_bytes: int) -> FetchWaitV1:
        """Return the request that asks for ``wants``, and note that it is sent. ``max_wait`` is in seconds."""
        self._epoch += 1
        epoch = self._epoch
        new: list[NewPart] = []
        moved: list[MovedPart] = []
        for entry, want in wants:
            fetch = entry.fetch
            flags = (EXACT if want.exact else 0) | (AT_ONCE if fetch.assumed else 0)
            if entry.session is self:
                self._disarm(entry)
                moved.append(MovedPart(entry.number, want.offset, want.max_bytes, flags))
            else:
                if entry.session is not None:  # its leader was another broker, and has refused it
                    entry.session.forget(entry)
                entry.session, entry.number = self, self._next_part
                self._next_part += 1
                self._entries[entry.number] = entry
                new.append(NewPart(fetch.topic, entry.number, fetch.partition, 0, want.offset, want.max_bytes, flags))
            entry.armed, entry.armed_epoch, entry.armed_behind = want, epoch, fetch.behind
            self.armed += 1
            self.behind += fetch.behind
        forgotten, self._forgotten = tuple(self._forgotten), []
        self.under_way += 1
        return FetchWaitV1(self._number, epoch, int(max_wait * 1000), 1, max_bytes, tuple(new), tuple(moved), forgotten)

    def answered(self, response: FetchWaitResponseV1) -> list[Answered]:
        """Take an answer; return what it has for the fetches under way. Check it by ``misfit`` first."""
        self.accepted = True
        answered: list[Answered] = []
        for part in response.parts:
            entry = self._entries.get(part[0])
            if entry is None or entry.armed_epoch > response.epoch:  # forgotten or moved since
                continue
            want = entry.armed
            if want is not None:
                self._disarm(entry)
                answered.append((entry, want, part))
        return answered

    def misfit(self, response: FetchWaitResponseV1) -> str:
        """Return the reason why an answer cannot belong to this session, as text; empty if it can."""
        if response.session != self._number or not 0 <= response.epoch <= self._epoch:
            return f"it names session {response.session} and epoch {response.epoch}"
        seen = set()
        for number, error, _, _, first_position, message_set in response.parts:
            entry = self._entries.get(number)
            if number in seen or not 0 <= number < self._next_part:
                return f"it has a part {number} that was not asked for"
            seen.add(number)
            if entry is None or entry.armed_epoch > response.epoch:
                continue
            want = entry.armed
            if want is None:
                return f"it has a part {number} that was answered before"
            # Further on, messages would be skipped unseen. If exact, other positions would not fit to the last answer.
            if error or not message_set:
                continue
            if first_position > want.offset or (want.exact and first_position != want.offset):
                return f"it begins at {first_position} in place of {want.offset}"
        return ""

    def forget(self, entry: FetchEntry) -> Wanted | None:
        """Take an entry out of the session; return the fetch that is not answered any more, if there is one."""
        want = entry.armed
        self._disarm(entry)
        del self._entries[entry.number]
        self._forgotten.append(entry.number)
        entry.session = None
        return want

    def end(self) -> list[tuple[FetchEntry, Wanted]]:
        """End the session; return the fetches that are not answered."""
        lost = []
        for entry in self._entries.values():
            want = entry.armed
            self._disarm(entry)
            entry.session = None
            if want is not None:
                lost.append((entry, want))
        self._entries.clear()
        self._forgotten.clear()
        return lost

    def _disarm(self, entry: FetchEntry) -> None:
        if entry.armed is not None:
            entry.armed = None
            self.armed -= 1
            self.behind -= entry.armed_behind
