"""Handlers of the requests about topics and logs: Offsets, Metadata and DescribeLog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.broker.disk_slices import run_in_slices
from logd.broker.reading import find_log
from logd.broker.requests.core import BrokerCore
from logd.broker.security.rights import Rights
from logd.errors import (
    BrokerStopping,
    LogdError,
    NoLeader,
    PartitionOffline,
    TopicCreationDisabled,
    UnknownError,
    UnknownTopic,
    UnsupportedVersion,
    WireError,
    WrongPartition,
)
from logd.leadership import NO_LEADER
from logd.protocol.requests.describe_log import DescribeLog, DescribeLogResponse, SegmentInfo
from logd.protocol.requests.legacy_requests import EARLIEST_TIME, LATEST_TIME, Offsets
from logd.protocol.requests.legacy_responses import OffsetsResponse
from logd.protocol.requests.metadata import (
    BrokerAddress,
    Metadata,
    MetadataResponse,
    MetadataResponseV1,
    MetadataV1,
    PartitionMetadata,
    TopicMetadata,
)
from logd.protocol.requests.requests import Unsupported
from logd.protocol.requests.responses import ErrorResponse
from logd.security.access_rules import Operation, ResourceType

_log = Logger()

#: Topics of one request that are created at a time, so that creations by others come in between.
MADE_AT_ONCE = 50


class DescribeRequests:
    """The Offsets, Metadata and DescribeLog requests of one connection."""

    def __init__(self, broker: BrokerCore, rights: Rights) -> None:
        self._broker = broker
        self._rights = rights
        self._lost = False

    def offsets(self, request: Offsets) -> OffsetsResponse:
        """Return segment starts by time, as Kafka 0.7.2 does."""
        broker = self._broker
        if request.max_count < 0:
            return OffsetsResponse(WrongPartition.code)  # a negative count; 4 is for sizes, 1 for offsets
        try:
            self._rights.check_topic(Operation.DESCRIBE, request.topic)
            log = find_log(broker.store, broker.topics, request.topic, request.partition)
            if log.replica is not None:
                log.replica.check_latest()
        except UnknownTopic:
            known = request.max_count > 0 and request.time in (LATEST_TIME, EARLIEST_TIME)
            return OffsetsResponse(0, (0,) if known else ())
        except WireError as error:
            return OffsetsResponse(error.code if error.code < 100 else UnknownError.code)
        return OffsetsResponse(0, tuple(log.offsets_before(request.time, request.max_count)))

    def metadata(self, request: Metadata) -> MetadataResponse | Deferred[MetadataResponse]:
        """Return the brokers and the leader of each partition. Create missing topics first if that is allowed."""
        names = self._broker.topics.names() if request.topics is None else list(dict.fromkeys(request.topics))
        errors: dict[str, int] = {}
        refused: dict[str, int] = {}
        if not self._rights.authorizer.open:
            if request.topics is None:
                names = [name for name in names if self._rights.may(Operation.DESCRIBE, ResourceType.TOPIC, name)]
            else:
                refused = self._refused(names)
        missing = (
            [name for name in names if name not in refused and self._broker.topics.get(name) is None]
            if request.create
            else []
        )
        waiting = iter(missing)
        left = len(missing)
        response: Deferred[MetadataResponse] = Deferred()

        def describe() -> MetadataResponse:
            live = self._broker.brokers()
            topics = tuple(
                [
                    TopicMetadata(name, refused[name], "", ())
                    if name in refused
                    else self._describe_topic(name, errors.get(name, UnknownTopic.code), live)
                    for name in names
                ]
            )
            brokers = tuple([BrokerAddress(number, *address) for number, address in sorted(live.items())])
            return respond(brokers, topics)

        def respond(brokers: tuple[BrokerAddress, ...], topics: tuple[TopicMetadata, ...]) -> MetadataResponse:
            if isinstance(request, MetadataV1):
                return MetadataResponseV1(brokers, topics, self._broker.topics.cluster())
            return MetadataResponse(brokers, topics)

        turns = self._broker.turns()

        async def create() -> None:
            nonlocal left
            for name in waiting:
                if turns.over:
                    await turns.rest()
                try:
                    await self._create_missing(name)
                except WireError as error:
                    errors[name] = error.code
                except Exception:
                    _log.failure("topic {topic} could not be created", topic=name)
                    errors[name] = UnknownError.code
                left -= 1
                if not left:
                    response.callback(answer())

        def answer() -> MetadataResponse:
            """Describe the topics after the creations, when no caller is left to whom an error could be raised."""
            try:
                return describe()
            except Exception:
                _log.failure("{count} topics could not be described; answering with an unknown error", count=len(names))
                return respond((), tuple([TopicMetadata(name, UnknownError.code, "", ()) for name in names]))

        if not missing:
            return describe()
        for _ in range(min(MADE_AT_ONCE, len(missing))):
            Deferred.fromCoroutine(create())
        return response

    def _refused(self, names: Iterable[str]) -> dict[str, int]:
        """Return the error codes of the topics that the access rules forbid to describe."""
        refusals = ((name, self._rights.topic_refusal(Operation.DESCRIBE, name)) for name in names)
        return {name: refusal.code for name, refusal in refusals if refusal is not None}

    def _create_missing(self, name: str) -> Deferred[None]:
        if not self._broker.settings.creates_on_demand:
            return fail(
                TopicCreationDisabled(
                    f"topic {name!r} does not exist, and topics.create = {self._broker.settings.topics_create}"
                )
            )
        try:
            self._rights.check_create(name)
        except WireError as error:
            return fail(error)
        return self._broker.create_on_demand(self._rights.requester, name)

    def _describe_topic(self, name: str, error: int, live: Mapping[int, object]) -> TopicMetadata:
        entry = self._broker.topics.get(name)
        if entry is None:
            return TopicMetadata(name, error, "", ())
        unusable = self._broker.topics.problem(name) is not None
        partitions = []
        for number in sorted(entry.partitions):
            led = self._broker.replication.leadership(name, number, entry, live)
            log = self._broker.store.log(name, number) if led.leader == self._broker.store.broker_id else None
            offline = unusable or (log is not None and log.offline is not None)
            code = NoLeader.code if led.leader == NO_LEADER else PartitionOffline.code if offline else 0
            partitions.append(PartitionMetadata(number, code, led.leader, led.epoch, led.replicas, led.in_sync))
        message_format = str(entry.settings.get("message.format", self._broker.settings.log.message_format))
        return TopicMetadata(name, 0, entry.uuid, tuple(partitions), message_format)

    def describe_log(self, request: DescribeLog) -> DescribeLogResponse | Deferred[DescribeLogResponse]:
        """Describe a log and its segments. Boundaries and times may be read from the disk, on threads, in slices."""
        try:
            self._rights.check_topic(Operation.DESCRIBE, request.topic)
            log = find_log(self._broker.store, self._broker.topics, request.topic, request.partition)
            if log.replica is not None:
                log.replica.check_latest()
        except WireError as error:
            return DescribeLogResponse(error.code, text=str(error))
        entry = self._broker.topics.get(request.topic)
        ends = (log.first, log.end, log.visible_end)
        segments = tuple([_readable(SegmentInfo(*segment), log.start) for segment in log.segments()])

        clamped = [min(max(position, ends[0]), ends[2]) for position in request.positions]
        response: Deferred[DescribeLogResponse] = Deferred()

        def answer(boundaries: Mapping[int, int], time_position: int) -> None:
            uuid = entry.uuid if entry is not None else ""
            found = tuple([boundaries[position] for position in clamped])
            response.callback(DescribeLogResponse(0, *ends, segments, found, time_position, uuid))

        def failed(error: BaseException | None) -> None:
            code = error.code if isinstance(error, WireError) else UnknownError.code
            if not isinstance(error, LogdError | OSError):
                _log.failure(
                    "a description of the log of {topic}-{partition} failed; answering with an unknown error",
                    Failure(error),
                    topic=request.topic,
                    partition=request.partition,
                )
            response.callback(DescribeLogResponse(code, text=str(error)))

        def looked(boundaries: list[tuple[int, int]] | None, error: BaseException | None) -> None:
            if boundaries is None:
                failed(error)
            elif request.time < 0:
                answer(dict(boundaries), -1)
            else:
                self._broker.threads.run(
                    lambda: log.position_at_time(request.time),
                    lambda found, wrong: failed(wrong) if found is None else answer(dict(boundaries), found),
                )

        if clamped:
            boundaries = log.find_boundaries(clamped)
            run_in_slices(self._broker.threads, boundaries, lambda: self._check_wanted(request), looked)
        else:
            looked([], None)
        return response

    def lost(self) -> None:
        """End the searches of a lost connection."""
        self._lost = True

    def _check_wanted(self, request: DescribeLog) -> None:
        """Raise WireError if the answer is not wanted any more, or cannot be given any more."""
        if self._lost or self._broker.stopping:
            raise BrokerStopping("the broker is stopping, or the connection is lost")
        find_log(self._broker.store, self._broker.topics, request.topic, request.partition)

    def unsupported(self, request: Unsupported) -> ErrorResponse:
        """Refuse a request version of a later release."""
        text = f"version {request.version} of request type {request.type} is not known to this broker"
        return ErrorResponse(UnsupportedVersion.code, text)


def _readable(segment: SegmentInfo, log_start: int) -> SegmentInfo:
    """Return the part of a segment that can be read: a log may begin inside its first one."""
    hidden = max(log_start - segment.start, 0)
    return segment._replace(start=segment.start + hidden, bytes=segment.bytes - hidden) if hidden else segment
