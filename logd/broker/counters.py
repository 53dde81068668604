"""The broker's counters since its start: plain integers that are cheap to increment."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from logd.broker.latency.histograms import Latencies

#: The most programs of clients that are told apart; a name is what any client says.
MOST_SOFTWARE = 100


@define
class KafkaCounters:
    """The counters of the listeners for clients of today's Kafka. All only grow."""

    connections: int = 0
    #: Requests by the name of their API.
    requests: dict[str, int] = field(factory=dict)
    #: Errors that answered parts of Produce and Fetch, by the name of the API and Kafka's code.
    errors: dict[tuple[str, int], int] = field(factory=dict)
    #: Counts a set for the audit, if there is one: topic, partition, the id of the set, the set. It is stored.
    audit: Callable[[str, int, int, bytes], None] | None = None
    #: Connections by the program and version that the client named, "" for none.
    software: dict[str, int] = field(factory=dict)

    def asked(self, api: str) -> None:
        """Count a request."""
        self.requests[api] = self.requests.get(api, 0) + 1

    def failed(self, api: str, code: int) -> None:
        """Count an error."""
        self.errors[api, code] = self.errors.get((api, code), 0) + 1

    def named(self, software: str) -> bool:
        """Count a connection by the program of its client. Return True for the first of its kind."""
        known = software in self.software
        if not known and len(self.software) >= MOST_SOFTWARE:
            software = "other"
        self.software[software] = self.software.get(software, 0) + 1
        return not known and software != "other"


@define
class Counters:
    """The broker's counters. All but ``session_parts`` and ``waiting_parts`` only grow."""

    connections_total: int = 0
    connections_refused: int = 0
    requests: int = 0
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
    #: Calls by clients of other protocols, by what they speak.
    foreign_calls: dict[str, int] = field(factory=dict)
    kafka: KafkaCounters = field(factory=KafkaCounters)
    latencies: Latencies = field(factory=Latencies)

    def refuse(self, error: BaseException) -> None:
        """Count a set that was not appended."""
        self.sets_refused += 1
        name = type(error).__name__
        self.refused_by_error[name] = self.refused_by_error.get(name, 0) + 1
