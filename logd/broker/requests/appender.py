"""Appends message sets to logs: the sets of one read go to each log in one gathered write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from attrs import define, field

from logd.broker.counters import Counters
from logd.config import LogSettings
from logd.errors import LogdError


class AppendableLog(Protocol):
    """The members of PartitionLog that are used here; tests append to a stand-in."""

    @property
    def end(self) -> int: ...

    @property
    def roll_above(self) -> int: ...

    @property
    def settings(self) -> LogSettings: ...

    def append(self, sets: list[bytes], messages: int, newest_timestamp: int) -> int: ...


#: ``appended(first id, id after the last message)`` of a set, or ``not_appended(error)``.
Appended = Callable[[int, int], None]
NotAppended = Callable[[BaseException], None]


@define(eq=False)
class _Gathered:
    """The sets of one log that wait for the write.

    ``told`` has an entry for each set with callbacks, ``joined`` the number of requests for each set of several.
    """

    sets: list[bytes] = field(factory=list)
    messages: int = 0
    newest_timestamp: int = -1
    told: list[tuple[int, Appended, NotAppended]] = field(factory=list)
    joined: list[tuple[int, int]] = field(factory=list)
    #: Bytes of all sets.
    size: int = 0

    @property
    def silent_requests(self) -> int:
        """Return the number of requests without callbacks."""
        return len(self.sets) - len(self.told) + sum([requests - 1 for _, requests in self.joined])


def _by_segment(log: AppendableLog, gathered: _Gathered) -> Iterator[_Gathered]:
    """Split the gathered sets where a segment would roll if they were appended one by one, as in Kafka 0.7.2.

    The number of messages of a single set is not known, so the counts of the parts are right only in total.
    """
    sets, told, messages = gathered.sets, gathered.told, gathered.messages
    at = 0
    while at < len(sets):
        position, limit = log.end, log.roll_above
        if position > limit:
            limit = position + log.settings.segment_bytes
        stop = at
        while stop < len(sets) and position <= limit:
            position += len(sets[stop])
            stop += 1
        if at == 0 and stop == len(sets):
            yield gathered
            return
        count = stop - at if stop < len(sets) else messages
        here = [(index - at, done, failed) for index, done, failed in told if at <= index < stop]
        joined = [(index - at, requests) for index, requests in gathered.joined if at <= index < stop]
        yield _Gathered(sets[at:stop], count, gathered.newest_timestamp, here, joined)
        messages -= count
        at = stop


@define(eq=False)
class Appender:
    """Gathers checked sets, then appends them log by log; the order within a log is that of the calls."""

    _counters: Counters
    _gathered: dict[Any, _Gathered] = field(factory=dict, init=False)

    def add(
        self, log: AppendableLog, message_set: bytes, messages: int, newest_timestamp: int, requests: int = 1
    ) -> _Gathered:
        """Gather a set that has been checked, of one request or of several."""
        gathered = self._gathered.get(log)
        if gathered is None:
            gathered = self._gathered[log] = _Gathered()
        gathered.sets.append(message_set)
        gathered.size += len(message_set)
        gathered.messages += messages
        if newest_timestamp > gathered.newest_timestamp:
            gathered.newest_timestamp = newest_timestamp
        if requests != 1:
            gathered.joined.append((len(gathered.sets) - 1, requests))
        return gathered

    def fits(self, log: AppendableLog, size: int) -> bool:
        """Return whether sets of ``size`` bytes in all would go to one segment if they were appended one by one now."""
        gathered = self._gathered.get(log)
        return log.end + (0 if gathered is None else gathered.size) + size <= log.roll_above

    def add_told(
        self,
        log: AppendableLog,
        message_set: bytes,
        messages: int,
        newest_timestamp: int,
        appended: Appended,
        not_appended: NotAppended,
    ) -> None:
        """Gather a set like ``add``, and have ``append`` call one of the two functions."""
        gathered = self.add(log, message_set, messages, newest_timestamp)
        gathered.told.append((len(gathered.sets) - 1, appended, not_appended))

    def append(self) -> list[LogdError]:
        """Append everything gathered; return the errors of sets without callbacks."""
        if not self._gathered:
            return []
        errors: list[LogdError] = []
        everything, self._gathered = self._gathered, {}
        for log, gathered in everything.items():
            failed: LogdError | None = None
            for part in _by_segment(log, gathered) if len(gathered.sets) > 1 else (gathered,):
                # After an error the rest is refused too, so that no set overtakes one that is sent again.
                if failed is None:
                    try:
                        first = log.append(part.sets, part.messages, part.newest_timestamp)
                    except LogdError as error:
                        failed = error
                if failed is None:
                    self._counters.messages_in += part.messages
                    self._tell(part, first)
                else:
                    errors += self._refuse(part, failed)
        return errors

    def _refuse(self, gathered: _Gathered, error: LogdError) -> list[LogdError]:
        for _, _, not_appended in gathered.told:
            not_appended(error)
        silent = gathered.silent_requests
        for _ in range(silent):
            self._counters.refuse(error)
        return [error] * silent

    def _tell(self, gathered: _Gathered, first: int) -> None:
        sizes = [len(message_set) for message_set in gathered.sets]
        self._counters.bytes_in += sum(sizes)
        at, position = 0, first
        for index, appended, _ in gathered.told:
            position += sum(sizes[at:index])
            at = index
            appended(position, position + sizes[index])
