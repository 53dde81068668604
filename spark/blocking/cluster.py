"""The cluster of a blocking client: metadata, a connection to each broker, and retries."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from attrs import define, field, frozen

from logd.backoff import Backoff
from logd.clientcore import defaults
from logd.clientcore.answers import is_final
from logd.clientcore.endpoints import HostPort, parse_endpoints
from logd.clientcore.metadata import ClusterView, TopicView, described, topic_error
from logd.clientcore.retry_budget import RetryBudget
from logd.clientcore.silence import FIRST_SECONDS
from logd.errors import (
    BrokerUnavailable,
    LogdError,
    UnknownTopic,
    UnsupportedVersion,
    WireError,
    WrongPartition,
    error_for_code,
)
from logd.net.tls import tls_context
from logd.protocol.requests.describe_log import DescribeLog, DescribeLogResponse
from logd.protocol.requests.fetch_wait import FetchWait
from logd.protocol.requests.metadata import Metadata, MetadataResponse, MetadataV1
from logd.protocol.requests.produce_ack import ProduceAck
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
    #: The brokers that left a request unanswered, the last to be asked what others can answer.
    _silent: set[HostPort] = field(factory=set, init=False)
    #: The number of checks of silent leaders, each of which begins with another broker.
    _checks: int = field(default=0, init=False)

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
        response = _metadata(lambda request: self.ask_any(request, is_slow=create), names, create)
        self._view.read(response, self.clock())
        for topic in response.topics:
            if topic.error:
                self._view.forget(topic.topic)
        return response

    def settled_metadata(self, topics: Sequence[str] | None) -> MetadataResponse:
        """Return metadata of topics (None for all), asked again while a topic has an error that may pass.

        Topics that do not exist are among them, with that error. Raises the errors of ``retry``, with the topic's name.
        """

        def once() -> MetadataResponse:
            response = self.metadata(topics)
            for topic in response.topics:
                if _may_pass(topic.error):
                    raise topic_error(topic.topic, topic.error)
            return response

        return self.retry(once)

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
        return self._connection(self._keeper(topic, partition))

    def ask_leader(self, topic: str, partition: int, request: NativeRequest) -> Any:
        """Send a request to the partition's leader once and return the response. Raises BrokerUnavailable."""
        return self._ask(self._keeper(topic, partition), request, self.settings.request_timeout)

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

    def leader_uuid(self, topic: str, partition: int) -> str | None:
        """Return the uuid of the topic whose log the partition's leader has; None if it does not tell now.

        Another broker may not have heard yet that the topic was made again. Asks once, and no broker that is silent.
        """
        try:
            address = self._keeper(topic, partition)
            if address in self._silent:
                return None
            log: DescribeLogResponse = self._ask(address, DescribeLog(topic, partition), self.settings.request_timeout)
        except (BrokerUnavailable, WireError):
            return None
        return None if log.error else log.uuid

    def is_known(self, topic: str, uuid: str) -> bool:
        """Return whether any broker knows a topic by this uuid, or a live one cannot tell now.

        One alone may hear late of a topic, or of its end.
        """
        untold = False
        for address in self._known():
            try:
                response = _metadata(partial(self._ask, address, timeout=FIRST_SECONDS), (topic,))
            except (BrokerUnavailable, WireError):
                untold |= address in set(self._view.addresses)
                continue
            for each in response.topics:
                if each.topic == topic and (_may_pass(each.error) or (each.uuid, each.error) == (uuid, 0)):
                    return True
        return untold

    def leads_no_more(self, topic: str, partition: int) -> bool:
        """Return whether another broker says that the partition has another leader than the one that is known.

        A broker that stood still answers for a log that it leads no more, and whose end may lie before what was read.
        It is among the last to be asked for metadata from then on. Raises as ``leader``.
        """
        moved = self._has_moved(self._keeper(topic, partition), DescribeLog(topic, partition))
        if moved:
            self.forget(topic)
        return moved

    def forget(self, topic: str) -> None:
        """Discard the topic's cached metadata, so that the next use reads them again."""
        self._view.forget(topic)

    def close(self) -> None:
        """Close every connection."""
        while self._connections:
            self._connections.popitem()[1].close()

    def ask_any(self, request: NativeRequest, is_slow: bool = False) -> Any:
        """Send a request to any broker and return the response, tried once with each.

        Each broker gets some seconds at first, so that a silent one does not hold up the others; then those that were
        late get the whole time. A request that ``is_slow`` gets that at once.

        Raises the last BrokerUnavailable or retriable WireError, and at once another WireError.
        """
        error: BrokerUnavailable | WireError | None = None
        whole = self.settings.request_timeout
        brokers = self._known()
        first = whole if is_slow or len(brokers) == 1 else min(FIRST_SECONDS, whole)
        late: list[HostPort] = []
        for timeout, addresses in ((first, brokers), (whole, late)):
            for address in addresses:
                try:
                    return self._ask(address, request, timeout)
                except BrokerUnavailable as failure:
                    error = failure
                    if address in self._silent and timeout < whole:
                        late.append(address)
                except WireError as refusal:
                    if is_final(refusal):
                        raise
                    error = refusal
        raise error or BrokerUnavailable("no broker's address is known")

    def _ask(self, address: HostPort, request: NativeRequest, timeout: float) -> Any:
        """Ask one broker once, and note whether it is silent. Raises BrokerUnavailable and WireError."""
        began = self.clock()
        try:
            response = self._connection(address, timeout).ask(request, timeout)
        except BrokerUnavailable:
            if self.clock() - began >= min(FIRST_SECONDS, timeout):
                self._silent.add(address)
            raise
        self._silent.discard(address)
        return response

    def _keeper(self, topic: str, partition: int) -> HostPort:
        """Return the address of the partition's leader. Raises as ``leader``."""
        self.topic(topic)
        try:
            return self._view.keeper(topic, partition)
        except WrongPartition:
            self.forget(topic)  # the next one may have it, or its leader
            raise

    def _known(self) -> list[HostPort]:
        """Return the brokers' addresses: connected ones first, then discovered ones, the first ones, silent ones."""
        known = dict.fromkeys((*self._connections, *self._view.addresses, *self.settings.addresses()))
        return sorted(known, key=lambda each: (each in self._silent, not self._is_connected(each)))

    def _is_connected(self, address: HostPort) -> bool:
        return address in self._connections and not self._connections[address].closed

    def _connection(self, address: HostPort, timeout: float | None = None) -> BlockingConnection:
        """Return the connection to a broker, made within ``timeout`` seconds if that is less than the setting."""
        connection = self._connections.get(address)
        if connection is None or connection.closed:
            self._connections.pop(address, None)
            connection = self._open(address, timeout)
            connection.has_moved = partial(self._has_moved, address)
            self._connections[address] = connection
        return connection

    def _open(self, address: HostPort, timeout: float | None = None) -> BlockingConnection:
        if self._dial is None:
            self._dial = self.settings.dial()
        settings = self.settings
        seconds = settings.connect_timeout if timeout is None else min(timeout, settings.connect_timeout)
        return BlockingConnection.open(*address, seconds, self._dial, settings.credentials, self.clock)

    def _has_moved(self, silent: HostPort, request: NativeRequest) -> bool:
        """Return whether other brokers lead the partitions of a request that a broker does not answer.

        Asks one broker, another one each time, and the next ones if it fails at once. The connection is new: on one
        that is in use the answer would come behind those that this thread waits for.
        """
        partitions = _led(request)
        others = [each for each in self._known() if each != silent]
        if not partitions or not others:
            return False
        self._checks += 1
        first = self._checks % len(others)
        topics = tuple(sorted({topic for topic, _ in partitions}))
        began = self.clock()
        for address in (*others[first:], *others[:first]):
            if self.clock() - began >= FIRST_SECONDS:
                break  # if all are silent, each would take as long
            try:
                with self._open(address, FIRST_SECONDS) as other:
                    response = _metadata(partial(other.ask, timeout=FIRST_SECONDS), topics)
            except LogdError:
                continue
            moved = self._view.has_left(silent, partitions, response)
            if moved:
                self._silent.add(silent)
            return moved
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _metadata(
    ask: Callable[[NativeRequest], Any], topics: tuple[str, ...] | None, create: bool = False
) -> MetadataResponse:
    """Ask for metadata in the form that the broker knows. Raises the errors of ``ask``."""
    response: MetadataResponse
    try:
        response = ask(MetadataV1(topics, create))
    except UnsupportedVersion:  # a broker of an earlier release
        response = ask(Metadata(topics, create))
    return response


def _may_pass(code: int) -> bool:
    """Return whether a topic's error says nothing about the topic, and another answer may come later."""
    return code not in (0, UnknownTopic.code) and error_for_code(code).retriable


def _led(request: NativeRequest) -> frozenset[tuple[str, int]]:
    """Return the partitions of a request that their leader alone can answer."""
    if isinstance(request, (FetchWait, ProduceAck)):
        return frozenset((part.topic, part.partition) for part in request.parts)
    if isinstance(request, DescribeLog):
        return frozenset({(request.topic, request.partition)})
    return frozenset()
