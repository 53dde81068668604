"""A broker in memory, without a network: it answers as docs/protocol.md says, on the test's clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock

from logd.client.cluster.link import ClientConnection
from logd.clientcore.addresses import Address
from logd.errors import (
    BrokerUnavailable,
    OffsetOutOfRange,
    PipelineBroken,
    UnknownTopic,
    UnsupportedVersion,
    WireError,
    WrongPartition,
)
from logd.protocol.loops import decode_set
from logd.protocol.requests.alter_topic import AlterTopic, AlterTopicResponse
from logd.protocol.requests.create_delete_topic import (
    CreateTopic,
    CreateTopicResponse,
    CreateTopicResponseV1,
    CreateTopicV1,
    CreateTopicV2,
    DeleteTopic,
    DeleteTopicResponse,
)
from logd.protocol.requests.describe_log import DescribeLog, DescribeLogResponse, SegmentInfo
from logd.protocol.requests.fetch_session import FetchWaitV1
from logd.protocol.requests.fetch_wait import FetchedPart, FetchPart, FetchWait, FetchWaitResponse
from logd.protocol.requests.legacy_requests import Produce
from logd.protocol.requests.metadata import (
    BrokerAddress,
    Metadata,
    MetadataResponse,
    MetadataResponseV1,
    MetadataV1,
    PartitionMetadata,
    TopicMetadata,
)
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducedPart, ProducePart
from logd.protocol.requests.repair import Repair, RepairResponse
from logd.protocol.requests.requests import decode_request
from logd.protocol.requests.responses import ErrorResponse
from tests.client.told_requests import ToldRequests


@define
class ModelLog:
    """The log of a partition: ``data`` begins at position ``start``."""

    data: bytearray = field(factory=bytearray)
    start: int = 0

    @property
    def end(self) -> int:
        """The position after the last byte."""
        return self.start + len(self.data)

    def boundaries(self) -> list[int]:
        """Return the positions at which entries begin, by their lengths alone, and the end."""
        found = [self.start]
        at = 0
        while at + 4 <= len(self.data):
            at += 4 + int.from_bytes(self.data[at : at + 4], "big")
            found.append(self.start + at)
        return found

    def payloads(self) -> list[bytes | None]:
        """Return the payloads of all messages."""
        return [message.payload for message in decode_set(bytes(self.data), self.start).messages]


@define
class ModelBroker:
    """Topics, logs and answers. A test changes ``up``, ``refuse``, ``meddle`` and the fields with errors."""

    clock: Clock
    #: Seconds between a request and its answer.
    delay: float = 0.001
    up: bool = True
    logs: dict[str, dict[int, ModelLog]] = field(factory=dict)
    #: Called with each part of a ProduceAck; an error it returns is the answer.
    refuse: Callable[[ProducePart], WireError | None] = field(default=lambda part: None)
    #: The number of partitions of a topic that Metadata creates.
    partitions: int = 1
    connections: list[ModelConnection] = field(factory=list)
    requests: list[Any] = field(factory=list)
    #: Called with each FetchedPart before it is sent; its result is sent instead.
    meddle: Callable[[FetchedPart], FetchedPart] = field(default=lambda part: part)
    #: Leaders of partitions that broker 7 does not lead. Broker 8 has the same logs, at the next port.
    leaders: dict[tuple[str, int], int] = field(factory=dict)
    #: Error codes that Metadata answers for topics, instead of describing them.
    topic_errors: dict[str, int] = field(factory=dict)
    #: Error codes that Metadata answers for single partitions.
    partition_errors: dict[tuple[str, int], int] = field(factory=dict)
    #: True for a broker of a release that knows no version 1 and no AlterTopic.
    old_release: bool = field(default=False, init=False)
    #: The message.format of topics, where it is not any.
    formats: dict[str, str] = field(factory=dict, init=False)
    #: The uuids of topics that were created again.
    uuids: dict[str, str] = field(factory=dict)
    #: Requests of these types are never answered.
    silent: tuple[type, ...] = ()
    #: The broker, 7 or 8, of which nothing comes any more: its machine has lost its power.
    dead: int = 0
    #: True if metadata names no other broker than 7.
    alone: bool = False

    def add(self, topic: str, partitions: int = 1) -> dict[int, ModelLog]:
        """Make a topic."""
        self.logs[topic] = {number: ModelLog() for number in range(partitions)}
        return self.logs[topic]

    def make_again(self, topic: str) -> dict[int, ModelLog]:
        """Delete a topic and make another one of that name and size, of which clients are not told."""
        self.uuids[topic] = self.uuids.get(topic, f"uuid-{topic}") + "-again"
        return self.add(topic, len(self.logs[topic]))

    def connect(self, address: Address) -> Deferred[ClientConnection]:
        """Open a connection after ``delay``; clients get this method as their ``connect``."""
        if not self.up:
            return fail(BrokerUnavailable("the model is down"))
        connection = ModelConnection(self, 8 if address == ("model", 6668) else 7)
        self.connections.append(connection)
        connecting: Deferred[ClientConnection] = Deferred()

        def connected() -> None:
            if not connecting.called:
                connecting.callback(connection)

        self.clock.callLater(self.delay, connected)
        return connecting

    def lose_all(self) -> None:
        """Lose every connection, and the answers under way on them."""
        for connection in self.connections:
            connection.lose()
        self.connections = []

    def answer(self, request: Any, connection: ModelConnection) -> Any:
        """Return the response to a request, or None for a FetchWait that has to wait."""
        if self.old_release and isinstance(request, (MetadataV1, CreateTopicV1, CreateTopicV2, AlterTopic)):
            return ErrorResponse(UnsupportedVersion.code, "not known to this broker")
        if isinstance(request, FetchWaitV1):  # the model has no fetch sessions; those of real brokers are tested
            return ErrorResponse(UnsupportedVersion.code, "not known to this broker")
        if isinstance(request, Metadata):
            return self._metadata(request)
        if isinstance(request, ProduceAck):
            return ProduceAckResponse(tuple(self._produce(part, connection) for part in request.parts))
        if isinstance(request, FetchWait):
            return self._fetch(request, connection)
        if isinstance(request, DescribeLog):
            return self._describe(request, connection)
        if isinstance(request, Repair):
            log = self._led(request.topic, request.partition, connection)
            return RepairResponse(WrongPartition.code) if log is None else RepairResponse(0, log.end, log.end)
        if isinstance(request, CreateTopic):
            self.add(request.topic, request.partitions)
            return CreateTopicResponse(0, "uuid")
        if isinstance(request, CreateTopicV1):
            self.add(request.topic, request.partitions)
            self.formats[request.topic] = request.settings.get("message.format", "any")
            return CreateTopicResponseV1(0, "uuid")
        if isinstance(request, AlterTopic):
            if request.topic not in self.logs:
                return AlterTopicResponse(UnknownTopic.code, text="no such topic")
            self.formats[request.topic] = request.settings.get("message.format", "any")
            return AlterTopicResponse(0, request.uuid, request.partitions, request.settings)
        if isinstance(request, DeleteTopic):
            if self.logs.pop(request.topic, None) is None:
                return DeleteTopicResponse(UnknownTopic.code, "no such topic")
            return DeleteTopicResponse(0)
        raise AssertionError(f"the model does not know {request!r}")

    def _metadata(self, request: Metadata) -> MetadataResponse:
        topics = []
        for topic in sorted(self.logs) if request.topics is None else request.topics:
            if topic not in self.logs and request.create:
                self.add(topic, self.partitions)
            if topic in self.topic_errors:
                topics.append(TopicMetadata(topic, self.topic_errors[topic], "", ()))
                continue
            if topic not in self.logs:
                topics.append(TopicMetadata(topic, UnknownTopic.code, "", ()))
                continue
            errors, both = self.partition_errors, (7, 8)
            parts = tuple(
                PartitionMetadata(n, errors.get((topic, n), 0), self.leaders.get((topic, n), 7), 0, both, both)
                for n in self.logs[topic]
            )
            message_format = self.formats.get(topic, "any")
            topics.append(TopicMetadata(topic, 0, self.uuids.get(topic, f"uuid-{topic}"), parts, message_format))
        brokers = (BrokerAddress(7, "model", 6667), BrokerAddress(8, "model", 6668))[: 1 if self.alone else 2]
        if isinstance(request, MetadataV1):
            return MetadataResponseV1(brokers, tuple(topics), "uuid of the cluster")
        return MetadataResponse(brokers, tuple(topics))

    def _produce(self, part: ProducePart, connection: ModelConnection) -> ProducedPart:
        topic, partition, _, restart, message_set = part
        key = topic, partition
        if restart:
            connection.broken.discard(key)
        elif key in connection.broken:
            return ProducedPart(topic, partition, PipelineBroken.code)
        stored = 0 if partition == -1 else partition
        log = self._led(topic, stored, connection)
        error = self.refuse(part) or (WrongPartition("no") if log is None else None)
        if error is not None:
            connection.broken.add(key)
            return ProducedPart(topic, partition, error.code)
        assert log is not None
        first = log.end
        log.data += message_set
        return ProducedPart(topic, partition, 0, stored, first, log.end)

    def _led(self, topic: str, partition: int, connection: ModelConnection) -> ModelLog | None:
        """Return the log, if that connection's broker leads it."""
        if self.leaders.get((topic, partition), 7) != connection.id:
            return None
        return self.logs.get(topic, {}).get(partition)

    def _fetch(self, request: FetchWait, connection: ModelConnection) -> FetchWaitResponse | None:
        parts = []
        left = request.max_bytes
        for part in request.parts:
            answer = self.meddle(self._fetch_part(part, left, connection))
            left -= len(answer.message_set)
            parts.append(answer)
        if all(part.error == 0 and not part.message_set for part in parts):
            return None
        return FetchWaitResponse(tuple(parts))

    def _fetch_part(self, part: FetchPart, left: int, connection: ModelConnection) -> FetchedPart:
        log = self._led(part.topic, part.partition, connection)
        if log is None:
            return FetchedPart(part.topic, part.partition, WrongPartition.code)
        if not log.start <= part.offset <= log.end:
            return FetchedPart(part.topic, part.partition, OffsetOutOfRange.code, log.start, log.end)
        first = part.offset if part.exact else max(b for b in log.boundaries() if b <= part.offset)
        at = first - log.start
        data = bytes(log.data[at : at + max(0, min(part.max_bytes, left))])
        return FetchedPart(part.topic, part.partition, 0, log.start, log.end, first, data)

    def _describe(self, request: DescribeLog, connection: ModelConnection) -> DescribeLogResponse:
        if request.partition not in self.logs.get(request.topic, {}):
            return DescribeLogResponse(UnknownTopic.code, text="no such log")
        log = self._led(request.topic, request.partition, connection)
        if log is None:
            return DescribeLogResponse(WrongPartition.code, text="led by another broker")
        known = log.boundaries()
        time = request.time if log.start <= request.time < log.end else -1
        return DescribeLogResponse(
            0,
            log.start,
            log.end,
            log.end,
            (SegmentInfo(log.start, len(log.data), 0),),
            tuple(max(b for b in known if b <= position) for position in request.positions),
            time,
            self.uuids.get(request.topic, f"uuid-{request.topic}"),
        )


class ModelConnection(ToldRequests):
    """A client's connection to the model, with the methods of BrokerConnection."""

    def __init__(self, broker: ModelBroker, number: int = 7) -> None:
        self.broker = broker
        self.id = number
        self.writable = True
        self.heard = True
        #: (topic, partition as asked) whose sets are refused until a restart.
        self.broken: set[tuple[str, int]] = set()
        self.lost = False
        self.closed = False
        #: Requests whose answers are still to come.
        self.waiting: dict[Deferred[Any], Any] = {}
        self._calls: list[Any] = []
        self._watchers: list[Deferred[BaseException]] = []
        self._writers: list[Deferred[None]] = []

    def request(self, request: Any) -> Deferred[Any]:
        """Send a request, as BrokerConnection does; fire with the response."""
        if self.lost:
            return fail(BrokerUnavailable("lost"))
        answer: Deferred[Any] = Deferred(lambda d: self.waiting.pop(d, None))
        self.waiting[answer] = request
        self.broker.requests.append(request)
        if not isinstance(request, self.broker.silent) and self.id != self.broker.dead:
            self._later(self.broker.delay, request, answer, None)
        return answer

    def _later(self, delay: float, *arguments: Any) -> None:
        self._calls = [call for call in self._calls if call.active()]
        self._calls.append(self.broker.clock.callLater(delay, self._answer, *arguments))

    def _answer(self, request: Any, answer: Deferred[Any], deadline: float | None) -> None:
        if self.lost:
            return
        response = self.broker.answer(request, self)
        if response is None:
            clock = self.broker.clock
            deadline = clock.seconds() + request.max_wait_ms / 1000 if deadline is None else deadline
            if clock.seconds() < deadline:
                self._later(0.01, request, answer, deadline)
                return
            parts = [self.broker._fetch_part(part, 0, self) for part in request.parts]
            response = FetchWaitResponse(tuple(parts))
        if self.waiting.pop(answer, None) is not None:
            answer.callback(response)

    def send_frames(self, frames: list[bytes]) -> None:
        """Send encoded Produce requests, as BrokerConnection does."""
        data = b"".join(frames)
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            self.send_only(decode_request(data, at + 4, at + 4 + size))
            at += 4 + size

    def send_only(self, request: Any) -> None:
        """Send a request without an answer, as BrokerConnection does."""
        if self.lost:
            raise BrokerUnavailable("lost")
        self.broker.requests.append(request)
        assert isinstance(request, Produce)
        log = self.broker._led(request.topic, max(0, request.partition), self)
        if log is not None:
            log.data += request.message_set

    def when_lost(self) -> Deferred[BaseException]:
        """Fire when the connection is lost, as BrokerConnection does."""
        watcher: Deferred[BaseException] = Deferred()
        if self.lost:
            watcher.callback(BrokerUnavailable("lost"))
        else:
            self._watchers.append(watcher)
        return watcher

    def when_writable(self) -> Deferred[None]:
        """Fire once more bytes may be written, as BrokerConnection does."""
        waiter: Deferred[None] = Deferred()
        if self.writable:
            waiter.callback(None)
        else:
            self._writers.append(waiter)
        return waiter

    def drained(self) -> None:
        """Let the network take bytes again, after a test has set ``writable`` to False."""
        self.writable = True
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.callback(None)

    def close(self) -> Deferred[None]:
        """Close the connection, as BrokerConnection does."""
        self.closed = True
        self.lose()
        done: Deferred[None] = Deferred()
        done.callback(None)
        return done

    def abort(self) -> None:
        """Lose the connection in the next turn, as BrokerConnection does."""
        self.broker.clock.callLater(0, self.lose)

    def lose(self) -> None:
        """Lose the connection: unanswered requests fail, though the broker may have acted on them."""
        if self.lost:
            return
        self.lost = True
        for call in self._calls:
            if call.active():
                call.cancel()
        waiting, self.waiting = self.waiting, {}
        for answer in waiting:
            answer.errback(BrokerUnavailable("lost"))
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.callback(BrokerUnavailable("lost"))
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.errback(BrokerUnavailable("lost"))


def run(clock: Clock, seconds: float = 1.0, step: float = 0.001) -> None:
    """Advance the clock in small steps, so that requests are answered."""
    steps = round(seconds / step)
    for _ in range(steps):
        clock.advance(step)
