"""A broker in memory, behind streams that a connection takes for sockets; it fails when a test says so."""

from __future__ import annotations

import logging
from collections.abc import Callable
from struct import Struct
from typing import Any

from attrs import define, field

from logd.errors import OffsetOutOfRange, UnknownTopic, WrongPartition
from logd.protocol.conversation.server import ServerConversation
from logd.protocol.loops import check_set
from logd.protocol.requests.describe_log import DescribeLog, DescribeLogResponse
from logd.protocol.requests.fetch_wait import FetchedPart, FetchWait, FetchWaitResponse
from logd.protocol.requests.metadata import (
    BrokerAddress,
    Metadata,
    MetadataResponse,
    MetadataResponseV1,
    MetadataV1,
    PartitionMetadata,
    TopicMetadata,
)
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducedPart
from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
from tests.protocol.wire import joined

# Without a handler, warnings about failures that a test has planned would be printed.
logging.getLogger("logd.spark").addHandler(logging.NullHandler())

_LENGTH = Struct(">i")


@define
class FakeLog:
    """The log of a partition: ``data`` begins at ``start``; answers carry at most ``piece`` bytes."""

    data: bytes = b""
    start: int = 0
    piece: int = 1 << 20

    @property
    def end(self) -> int:
        """The visible end."""
        return self.start + len(self.data)

    def boundary(self, position: int) -> int:
        """Return the start of the entry that contains a position, or the end for the end."""
        here = self.start
        while here < self.end:
            (length,) = _LENGTH.unpack_from(self.data, here - self.start)
            if here + 4 + length > position:
                return here
            here += 4 + length
        return self.end


@define
class FakeTopic:
    """A topic and its logs."""

    uuid: str = "uuid-1"
    logs: list[FakeLog] = field(factory=lambda: [FakeLog()])
    message_format: str = "any"


@define(eq=False)
class FakeBroker:
    """A broker that answers at once. ``before`` sees each request first; it may answer it, or raise OSError."""

    topics: dict[str, FakeTopic] = field(factory=dict)
    before: Callable[[Any], Any] = lambda _: None
    requests: list[Any] = field(factory=list)
    #: The hosts of the cluster's brokers, all of which have the same logs, and the number of the one that leads.
    hosts: tuple[str, ...] = ("fake",)
    leader: int = 0
    #: Hosts from which nothing comes until a time, although their connections stay open.
    silent: dict[str, float] = field(factory=dict)
    #: The host that has got the present request.
    asked: str = ""
    connections: int = 0
    now: float = 1000.0
    slept: list[float] = field(factory=list)

    def cluster(self, **settings: Any) -> BlockingCluster:
        """Return a cluster of this broker alone, whose time passes in ``sleep`` only."""
        return BlockingCluster(
            ClusterSettings(brokers=",".join(f"{host}:1" for host in self.hosts), **settings),
            clock=lambda: self.now,
            sleep=self._sleep,
            random=lambda: 1.0,
            dial=self._dial,
        )

    def count(self, kind: type[Any]) -> int:
        """Return the number of requests of a kind so far."""
        return sum(isinstance(request, kind) for request in self.requests)

    def hear_late(self, host: str, topics: dict[str, FakeTopic], present: dict[str, FakeTopic]) -> None:
        """Have a host give metadata of ``topics``, until a client waits, and all others know the ``present`` ones."""
        self.slept.clear()

        def before(request: Any) -> None:
            late = isinstance(request, Metadata) and self.asked == host and not self.slept
            self.topics = topics if late else present

        self.before = before

    def depose(self, host: str, log: FakeLog, data: bytes, successor: int) -> None:
        """Have a host lead all, as far as it knows, with ``data`` in place of a log; the others know its successor."""
        number, present = self.hosts.index(host), log.data

        def before(request: Any) -> None:
            deposed = self.asked == host
            self.leader = number if deposed else successor
            log.data = data if deposed else present

        self.before = before

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def _dial(self, host: str, port: int, timeout: float) -> FakeStream:
        self.connections += 1
        return FakeStream(self, host)

    def answer(self, request: Any) -> Any:
        """Return the response to a request."""
        self.requests.append(request)
        planned = self.before(request)
        if planned is not None:
            return planned
        if isinstance(request, Metadata):
            names = tuple(self.topics) if request.topics is None else request.topics
            kind = MetadataResponseV1 if isinstance(request, MetadataV1) else MetadataResponse
            brokers = tuple(BrokerAddress(number, host, 1) for number, host in enumerate(self.hosts))
            return kind(brokers, tuple(self._topic(name) for name in names))
        if isinstance(request, DescribeLog):
            log = self._log(request.topic, request.partition)
            if isinstance(log, int):
                return DescribeLogResponse(log, text="not here")
            found = tuple(log.boundary(position) for position in request.positions)
            uuid = self.topics[request.topic].uuid
            return DescribeLogResponse(0, log.start, log.end, log.end, (), found, -1, uuid)
        if isinstance(request, FetchWait):
            return FetchWaitResponse(tuple(self._fetch(part) for part in request.parts))
        assert isinstance(request, ProduceAck)
        return ProduceAckResponse(tuple(self._produce(part) for part in request.parts))

    def _topic(self, name: str) -> TopicMetadata:
        topic = self.topics.get(name)
        if topic is None:
            return TopicMetadata(name, UnknownTopic.code, "", ())
        partitions = tuple(PartitionMetadata(n, 0, self.leader, 0, (0,), (0,)) for n in range(len(topic.logs)))
        return TopicMetadata(name, 0, topic.uuid, partitions, topic.message_format)

    def _log(self, topic: str, partition: int) -> FakeLog | int:
        if topic not in self.topics:
            return UnknownTopic.code
        logs = self.topics[topic].logs
        return logs[partition] if partition < len(logs) else WrongPartition.code

    def _fetch(self, part: Any) -> FetchedPart:
        log = self._log(part.topic, part.partition)
        if isinstance(log, int):
            return FetchedPart(part.topic, part.partition, log)
        ends = log.start, log.end
        if not log.start <= part.offset <= log.end:
            return FetchedPart(part.topic, part.partition, OffsetOutOfRange.code, *ends)
        first = part.offset if part.exact else log.boundary(part.offset)
        at = first - log.start
        data = log.data[at : at + min(part.max_bytes, log.piece)]
        return FetchedPart(part.topic, part.partition, 0, *ends, first, data)

    def _produce(self, part: Any) -> ProducedPart:
        log = self._log(part.topic, part.partition)
        if isinstance(log, int):
            return ProducedPart(part.topic, part.partition, log)
        check_set(part.message_set, 1_000_000)
        first = log.end
        log.data += part.message_set
        return ProducedPart(part.topic, part.partition, 0, part.partition, first, log.end)


class FakeStream:
    """A socket whose other end is a FakeBroker, on a host that may be silent."""

    #: The bytes that a silent host's kernel takes.
    room = 1000

    def __init__(self, broker: FakeBroker, host: str) -> None:
        self._broker = broker
        self._host = host
        self._conversation = ServerConversation()
        self._answers: list[bytes] = []
        self._lost: OSError | None = None
        self._timeout = 0.0
        self._held = b""

    def send(self, data: bytes | memoryview, /) -> int:
        """Have the broker answer the requests; return the number of bytes taken."""
        piece = bytes(data)
        if self._is_silent():
            piece = piece[: self.room - len(self._held)]
            if not piece:
                self._wait()
        self._held += piece
        if not self._is_silent():
            self._answer()
        return len(piece)

    def recv(self, size: int, /) -> bytes:
        """Return the next answer, or raise the loss."""
        if self._is_silent():
            self._wait()
        self._answer()
        if self._answers:
            return self._answers.pop(0)
        if self._lost is not None:
            raise self._lost
        raise AssertionError("waits for an answer that will never come")

    def settimeout(self, seconds: float | None, /) -> None:
        """Keep the time that a silent host is waited for."""
        assert seconds is not None
        self._timeout = seconds

    def close(self) -> None:
        """Drop the answers that were not read."""
        self._answers.clear()

    def _is_silent(self) -> bool:
        return self._broker.now < self._broker.silent.get(self._host, 0.0)

    def _wait(self) -> None:
        """Pass the time until the host is heard again. Raises TimeoutError if that is too late."""
        self._broker.now = min(self._broker.silent[self._host], self._broker.now + self._timeout)
        if self._is_silent():
            raise TimeoutError("timed out")

    def _answer(self) -> None:
        held, self._held = self._held, b""
        for request, token in self._conversation.receive_data(held):
            self._broker.asked = self._host
            try:
                response = self._broker.answer(request)
            except OSError as error:
                self._lost = error
                return
            self._answers.append(joined(self._conversation.answer(token, response)))
