"""The cluster of a blocking client: metadata, a connection to each broker, and retries."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from attrs import define, field, frozen

from logd.backoff import Backoff
from logd.clientcore import defaults
from logd.clientcore.answers import is_final
from logd.clientcore.endpoints import HostPort, parse_endpoints
from logd.clientcore.metadata import ClusterView, TopicView, described
from logd.clientcore.retry_budget import RetryBudget
from logd.errors import BrokerUnavailable, UnknownTopic, UnsupportedVersion, WireError, WrongPartition, error_for_code
from logd.net.tls import tls_context
from logd.protocol.requests.describe_log import DescribeLog, DescribeLogResponse
from logd.protocol.requests.metadata import Metadata, MetadataResponse, MetadataV1
from logd.protocol.requests.requests import NativeRequest
from logd.security.credentials import Credentials
from logd.spark.blocking.connection import BlockingConnection, Dial, dial, dial_tls

T = TypeVar("T")


@frozen(kw_only=True)
class ClusterSettings:
    """Settings of connections to brokers. They are sent to executors, so they are only text and numbers."""

    #: The first brokers: one or more of ``HOST:PORT`` and ``tls:HOST:PORT:trustRoots=FOLDER``, separated by commas.
    brokers: str = "127.0.0.1:6667"
    #: Seconds that one attempt to connect may take.
    connect_timeout: float = defaults.CONNECT_TIMEOUT
    #: Seconds to wait for an answer before the connection is given up.
    request_timeout: float = defaults.REQUEST_TIMEOUT
    #: Seconds without any progress after which no further attempt is made.
    retry_timeout: float = defaults.DELIVERY_TIMEOUT
    #: Use TLS, also for brokers without ``tls:``.
    tls: bool = False
    #: Files: certificates to trust instead of the system's; the client's own certificate; its key.
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    #: Whom to connect as; None for nobody.
    credentials: Credentials | None = None

    def addresses(self) -> tuple[HostPort, ...]:
        """Return the addresses of the first brokers. Raises ConfigurationError that names a malformed one."""
        return tuple(each.address for each in parse_endpoints(self.brokers))

    @property
    def secure(self) -> bool:
        """Return True if TLS is used. Raises as ``addresses``."""
        return self.tls or parse_endpoints(self.brokers)[0].tls is not None

    def dial(self) -> Dial:
        """Return the function that connects. Raises ConfigurationError when a certificate cannot be read."""
        if not self.secure:
            return dial
        folder, certificate, key = parse_endpoints(self.brokers)[0].tls or (None, None, None)
        own = (self.tls_certificate, self.tls_key) if self.tls_certificate is not None else (certificate, key)
        return dial_tls(tls_context(self.tls_ca, folder, *own))


@define(eq=False)
class Attempts:
    """The attempts at one operation, and the pauses between them."""

    budget: RetryBudget
    clock: Callable[[], float]
    sleep: Callable[[float], None]

    def reset(self) -> None:
        """Reset the count after a successful attempt."""
        self.budget.reset()

    def failed(self, error: Exception) -> None:
        """Wait before the next attempt, longer each time; raise ``error`` after the retry timeout."""
        self.sleep(self.budget.delay(error, self.clock()))


@define(eq=False)
class BlockingCluster:
    """Connections to brokers, and cached metadata of topics. For one thread; a context manager."""

    settings: ClusterSettings
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random
    _dial: Dial | None = field(default=None, alias="dial")
    _view: ClusterView[HostPort] = field(factory=lambda: ClusterView(lambda host, port: (host, port)), init=False)
    _connections: dict[HostPort, BlockingConnection] = field(factory=dict, init=False)

    def attempts(self) -> Attempts:
        """Return a new count of attempts, with the retry timeout of the settings."""
        backoff = Backoff(defaults.RETRY_DELAY, defaults.RETRY_DELAY_LIMIT, self.random)
        return Attempts(RetryBudget(backoff, self.settings.retry_timeout), self.clock, self.sleep)

    def retry(self, work: Callable[[], T]) -> T:
        """Call ``work`` until it succeeds, retrying for ``retry_timeout`` seconds.

        Raises the last BrokerUnavailable or retriable WireError; any other error is raised at once.
        """
        attempts = self.attempts()
        while True:
            try:
                return work()
            except BrokerUnavailable as error:
                attempts.failed(error)
            except WireError as error:
                if is_final(error) or isinstance(error, UnknownTopic):
                    raise
                attempts.failed(error)
            self._view.forget_all()

    def metadata(self, topics: Sequence[str] | None, create: bool = False) -> MetadataResponse:
        """Return metadata of topics (None for all) from any broker. Raises as ``ask_any``."""
        names = None if topics is None else tuple(topics)
        response: MetadataResponse
        try:
            response = self.ask_any(MetadataV1(names, create))
        except UnsupportedVersion:  # a broker of an earlier release
            response = self.ask_any(Metadata(names, create))
        self._view.read(response, self.clock())
        for topic in response.topics:
            if topic.error:
                self._view.forget(topic.topic)
        return response

    def topic(self, name: str, fresh: bool = False) -> TopicView:
        """Return the metadata of a topic, reading it if it is not cached or ``fresh``.

        Raises UnknownTopic, BrokerUnavailable, or another error of the broker.
        """
        view = None if fresh else self._view.known(name)
        if view is None:
            described(self.metadata([name]), name, self.settings.brokers)
            view = self._view.known(name)
            assert view is not None  # it was just described
        return view

    def leader(self, topic: str, partition: int) -> BlockingConnection:
        """Return a connection to the partition's leader. Raises WrongPartition, UnknownTopic, BrokerUnavailable."""
        self.topic(topic)
        try:
            return self._connection(self._view.keeper(topic, partition))
        except WrongPartition:
            self.forget(topic)  # the next one may have it, or its leader
            raise

    def ask_leader(self, topic: str, partition: int, request: NativeRequest) -> Any:
        """Send a request to the partition's leader once and return the response. Raises BrokerUnavailable."""
        return self.leader(topic, partition).ask(request, self.settings.request_timeout)

    def describe(
        self, topic: str, partition: int, positions: Sequence[int] = (), time_ms: int = -1
    ) -> DescribeLogResponse:
        """Return the leader's description of a log, with retries.

        Raises BrokerUnavailable or an error of the broker.
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
        """Discard the topic's cached metadata, so that the next use reads them again."""
        self._view.forget(topic)

    def close(self) -> None:
        """Close every connection."""
        while self._connections:
            self._connections.popitem()[1].close()

    def ask_any(self, request: NativeRequest) -> Any:
        """Send a request to any broker and return the response, tried once with each.

        Raises the last BrokerUnavailable or retriable WireError, and at once another WireError.
        """
        error: BrokerUnavailable | WireError | None = None
        # Connected brokers first, then discovered ones, then the first brokers.
        known = (*self._connections, *self._view.addresses, *self.settings.addresses())
        for address in dict.fromkeys(known):
            try:
                return self._connection(address).ask(request, self.settings.request_timeout)
            except BrokerUnavailable as failure:
                error = failure
            except WireError as refusal:
                if is_final(refusal):
                    raise
                error = refusal
        raise error or BrokerUnavailable("no broker's address is known")

    def _connection(self, address: HostPort) -> BlockingConnection:
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            if self._dial is None:
                self._dial = self.settings.dial()
            self._connections.pop(address, None)
            settings = self.settings
            connection = BlockingConnection.open(*address, settings.connect_timeout, self._dial, settings.credentials)
            self._connections[address] = connection
        return connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
