"""Message sets on their way into logs: those that came in one read go to each log in one gathered write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from attrs import define, field

from logd.broker.counters import Counters
from logd.errors import LogdError


class AppendableLog(Protocol):
    """The part of a partition's log that is needed here."""

    def append(self, sets: list[bytes], messages: int, newest_timestamp: int) -> int: ...


#: Told the id of a set's first message and the id after its last, or the error that kept the set out.
Appended = Callable[[int, int], None]
NotAppended = Callable[[BaseException], None]


@define(eq=False)
class _Gathered:
    """The sets of one log that wait for the write; ``told`` has an entry for each set that somebody asks about."""

    sets: list[bytes] = field(factory=list)
    messages: int = 0
    newest_timestamp: int = -1
    told: list[tuple[int, Appended, NotAppended]] = field(factory=list)


@define(eq=False)
class Appender:
    """Gathers checked sets, then appends them log by log; the order within a log is that of the calls."""

    _counters: Counters
    _gathered: dict[Any, _Gathered] = field(factory=dict, init=False)

    def add(self, log: AppendableLog, message_set: bytes, messages: int, newest_timestamp: int) -> _Gathered:
        """Take a set that has been checked."""
        gathered = self._gathered.get(log)
        if gathered is None:
            gathered = self._gathered[log] = _Gathered()
        gathered.sets.append(message_set)
        gathered.messages += messages
        if newest_timestamp > gathered.newest_timestamp:
            gathered.newest_timestamp = newest_timestamp
        return gathered

    def add_told(
        self,
        log: AppendableLog,
        message_set: bytes,
        messages: int,
        newest_timestamp: int,
        appended: Appended,
        not_appended: NotAppended,
    ) -> None:
        """Like ``add``, and call one of the two functions from within ``append``."""
        gathered = self.add(log, message_set, messages, newest_timestamp)
        gathered.told.append((len(gathered.sets) - 1, appended, not_appended))

    def append(self) -> list[LogdError]:
        """Append everything gathered; return the errors of sets that nobody asked about."""
        if not self._gathered:
            return []
        errors: list[LogdError] = []
        everything, self._gathered = self._gathered, {}
        for log, gathered in everything.items():
            try:
                first = log.append(gathered.sets, gathered.messages, gathered.newest_timestamp)
            except LogdError as error:
                for _, _, not_appended in gathered.told:
                    not_appended(error)
                for _ in range(len(gathered.sets) - len(gathered.told)):
                    self._counters.refuse(error)
                    errors.append(error)
                continue
            self._counters.messages_in += gathered.messages
            self._tell(gathered, first)
        return errors

    def _tell(self, gathered: _Gathered, first: int) -> None:
        sizes = [len(message_set) for message_set in gathered.sets]
        self._counters.bytes_in += sum(sizes)
        at, position = 0, first
        for index, appended, _ in gathered.told:
            position += sum(sizes[at:index])
            at = index
            appended(position, position + sizes[index])
