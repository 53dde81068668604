"""The broker's counters since its start: plain integers that are cheap to increment."""

from __future__ import annotations

from attrs import define, field


@define
class Counters:
    """The broker's counters. All but ``connections``, ``session_parts`` and ``waiting_parts`` only grow."""

    connections: int = 0
    connections_total: int = 0
    connections_refused: int = 0
    requests: int = 0
    produce_requests: int = 0
    fetch_requests: int = 0
    #: Partitions that fetch sessions watch now.
    session_parts: int = 0
    #: Partitions of fetches that wait now, those in sessions not counted.
    waiting_parts: int = 0
    #: Fetches that were answered without a wait, or before its end, because too many partitions were waiting.
    fetches_cut_short: int = 0
    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    sets_refused: int = 0
    refused_by_error: dict[str, int] = field(factory=dict)

    def refuse(self, error: BaseException) -> None:
        """Count a set that was not appended."""
        self.sets_refused += 1
        name = type(error).__name__
        self.refused_by_error[name] = self.refused_by_error.get(name, 0) + 1
