"""What a blocking client knows of the brokers: connections, who leads which partition, and trying again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from attrs import define, field, frozen

from logd.errors import BrokerUnavailable, UnknownTopic, WireError, WrongPartition, error_for_code
from logd.protocol.describe_log import DescribeLog, DescribeLogResponse
from logd.protocol.metadata import Metadata, MetadataResponse, TopicMetadata
from logd.protocol.requests import OurRequest
from logd.spark.addresses import Address, parse_endpoints, tls_context
from logd.spark.connection import Connection, Dial, dial, dial_tls

T = TypeVar("T")

_FIRST_DELAY = 0.1
_LONGEST_DELAY = 5.0


@frozen(kw_only=True)
class ClusterSettings:
    """How the brokers are reached; travels to the executors, so it holds nothing but text and numbers."""

    #: Where to begin: one or more, separated by commas, of ``HOST:PORT`` and ``tls:HOST:PORT:trustRoots=FOLDER``.
    brokers: str = "127.0.0.1:6667"
    #: Seconds that one attempt to connect may take.
    connect_timeout: float = 10.0
    #: Seconds to wait for an answer before the connection is given up.
    request_timeout: float = 30.0
    #: Seconds without any progress after which no further attempt is made.
    retry_timeout: float = 120.0
    #: Speak TLS to the brokers, also where ``brokers`` does not say so.
    tls: bool = False
    #: A file of certificates to trust in place of the system's; a client's own certificate and its key.
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None

    def addresses(self) -> tuple[Address, ...]:
        """The addresses to begin with. Raises ConfigurationError that names what is none."""
        return tuple(each.address for each in parse_endpoints(self.brokers))

    @property
    def secure(self) -> bool:
        """Whether TLS is spoken. Raises as ``addresses``."""
        return self.tls or parse_endpoints(self.brokers)[0].tls is not None

    def dial(self) -> Dial:
        """How to connect. Raises ConfigurationError when a certificate cannot be read."""
        if not self.secure:
            return dial
        folder, certificate, key = parse_endpoints(self.brokers)[0].tls or (None, None, None)
        own = (self.tls_certificate, self.tls_key) if self.tls_certificate is not None else (certificate, key)
        return dial_tls(tls_context(self.tls_ca, folder, *own))


def topic_error(cluster: Cluster, topic: str, code: int) -> WireError:
    """What a broker answered of a topic, in words that name the topic, who was asked, and the remedy."""
    if code == UnknownTopic.code:
        where = cluster.settings.brokers
        return UnknownTopic(f"there is no topic {topic!r} at {where}; 'logd topics list' names those that there are")
    return error_for_code(code, f"topic {topic!r}: {error_for_code(code)}")


@define
class Attempts:
    """How often one thing was tried in vain, and how long that may go on."""

    patience: float
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    random: Callable[[], float]
    _failures: int = 0
    _since: float = 0.0

    def reset(self) -> None:
        """It worked: patience begins anew."""
        self._failures = 0

    def failed(self, error: Exception) -> None:
        """Wait before the next attempt, longer each time; raise ``error`` when patience is over."""
        if not self._failures:
            self._since = self.clock()
        delay = min(_LONGEST_DELAY, _FIRST_DELAY * 2.0 ** min(self._failures, 60)) * (0.5 + 0.5 * self.random())
        self._failures += 1
        if self.clock() + delay - self._since > self.patience:
            raise error
        self.sleep(delay)


@define(eq=False)
class Cluster:
    """Connections to brokers, and what was last read about topics. For one thread; a context manager."""

    settings: ClusterSettings
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random
    _dial: Dial | None = field(default=None, alias="dial")
    _addresses: dict[int, Address] = field(factory=dict, init=False)
    _topics: dict[str, TopicMetadata] = field(factory=dict, init=False)
    _connections: dict[Address, Connection] = field(factory=dict, init=False)

    def attempts(self) -> Attempts:
        """A new count of attempts, as patient as the settings say."""
        return Attempts(self.settings.retry_timeout, self.clock, self.sleep, self.random)

    def retry(self, work: Callable[[], T]) -> T:
        """Call ``work`` until it succeeds, for ``retry_timeout`` seconds while it fails with what may pass.

        Raises the last BrokerUnavailable or retriable WireError, and at once whatever else ``work`` raises.
        """
        attempts = self.attempts()
        while True:
            try:
                return work()
            except BrokerUnavailable as error:
                attempts.failed(error)
            except WireError as error:
                if not error.retriable or isinstance(error, UnknownTopic):
                    raise
                attempts.failed(error)
            self._topics.clear()

    def metadata(self, topics: Sequence[str] | None, create: bool = False) -> MetadataResponse:
        """Ask any broker about topics, None for all. Raises what ``ask_any`` raises."""
        response: MetadataResponse = self.ask_any(Metadata(None if topics is None else tuple(topics), create))
        self._addresses = {broker.id: (broker.host, broker.port) for broker in response.brokers}
        for topic in response.topics:
            if topic.error:
                self._topics.pop(topic.topic, None)
            else:
                self._topics[topic.topic] = topic
        return response

    def topic(self, name: str, fresh: bool = False) -> TopicMetadata:
        """What is known about a topic, read now if nothing is or ``fresh``.

        Raises UnknownTopic, BrokerUnavailable, or what else the broker answers.
        """
        if fresh or name not in self._topics:
            described = next((each for each in self.metadata([name]).topics if each.topic == name), None)
            if described is None:
                raise UnknownTopic(f"the broker said nothing about topic {name!r}")
            if described.error:
                raise topic_error(self, name, described.error)
        return self._topics[name]

    def leader(self, topic: str, partition: int) -> Connection:
        """A connection to the partition's leader. Raises WrongPartition, UnknownTopic, BrokerUnavailable."""
        described = self.topic(topic)
        found = next((each for each in described.partitions if each.partition == partition), None)
        if found is None:
            known = sorted(each.partition for each in described.partitions)
            raise WrongPartition(f"topic {topic!r} has no partition {partition}: it has {known}")
        address = self._addresses.get(found.leader)
        if address is None:
            self.forget(topic)
            raise WrongPartition(f"topic {topic!r}, partition {partition}: it has no leader now")
        return self._connection(address)

    def ask_leader(self, topic: str, partition: int, request: OurRequest) -> Any:
        """Send a request to the partition's leader and return the response, tried once. Raises BrokerUnavailable."""
        return self.leader(topic, partition).ask(request, self.settings.request_timeout)

    def describe(
        self, topic: str, partition: int, positions: Sequence[int] = (), time_ms: int = -1
    ) -> DescribeLogResponse:
        """Ask the leader about a log, and again while that may help.

        Raises BrokerUnavailable or what the broker answers.
        """

        def once() -> DescribeLogResponse:
            response: DescribeLogResponse = self.ask_leader(
                topic, partition, DescribeLog(topic, partition, tuple(positions), time_ms)
            )
            if response.error:
                raise error_for_code(response.error, f"topic {topic!r}, partition {partition}: {response.text}")
            return response

        return self.retry(once)

    def forget(self, topic: str) -> None:
        """Read the topic's metadata again before it is next used."""
        self._topics.pop(topic, None)

    def close(self) -> None:
        """Close every connection."""
        while self._connections:
            self._connections.popitem()[1].close()

    def ask_any(self, request: OurRequest) -> Any:
        """Send a request to any broker and return the response, tried once with each.

        Raises the last BrokerUnavailable or retriable WireError, and at once another WireError.
        """
        error: BrokerUnavailable | WireError | None = None
        # Those that are connected first, then those that were discovered, then where all began.
        known = (*self._connections, *self._addresses.values(), *self.settings.addresses())
        for address in dict.fromkeys(known):
            try:
                return self._connection(address).ask(request, self.settings.request_timeout)
            except BrokerUnavailable as failure:
                error = failure
            except WireError as refusal:
                if not refusal.retriable:
                    raise
                error = refusal
        raise error or BrokerUnavailable("no broker's address is known")

    def _connection(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            if self._dial is None:
                self._dial = self.settings.dial()
            self._connections.pop(address, None)
            connection = Connection.open(*address, self.settings.connect_timeout, self._dial)
            self._connections[address] = connection
        return connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
