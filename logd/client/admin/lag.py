"""The lag of a group: owner, position and log end of each partition, and the lag in bytes, messages and seconds."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator

from attrs import asdict, frozen

from logd.client.admin.admin import Admin
from logd.client.admin.lag_times import age_at
from logd.client.consumer.consumer import Consumer
from logd.client.consumer.fetching.batches import MessageBatch
from logd.client.consumer.read_timeout import with_patience
from logd.client.starting_positions import Position
from logd.coord import paths
from logd.coord.errors import NoNode
from logd.coord.groups.inspection import GroupEntry
from logd.coord.interfaces import ICoordination
from logd.coord.registries.brokers import read_brokers
from logd.coord.registries.topics import read_topic
from logd.deferreds.gathering import gather_some
from logd.errors import BrokerUnavailable, LogdError, UnknownTopic
from logd.interfaces import Clock
from logd.protocol.message import Message
from logd.topic import TopicPartition

#: Partitions that are described at the same time.
AT_ONCE = 50


@frozen
class PartitionLag:
    """The lag of a group in one partition. Positions and ``lag_bytes`` are bytes; None stands for an unknown value."""

    topic: str
    partition: int
    #: The id of the consumer stream that owns the partition, or None.
    owner: str | None
    #: The position at which the group continues; None before a first commit or a decided start.
    position: int | None
    log_start: int | None = None
    #: The end of the visible log.
    log_end: int | None = None
    lag_bytes: int | None = None
    #: The lag in messages, if ``lag_bytes`` is small enough to be read and counted.
    lag_messages: int | None = None
    #: The age of the first message that is not handled; 0.0 when there is none.
    lag_seconds: float | None = None
    #: For a position outside of the log: the two positions between which an unknown number of messages was lost before
    #: it was handled. The lag counts none of them: retention removed them, or the log was lost and begins anew far
    #: above.
    lost: tuple[int, int] | None = None
    #: The reason why the log could not be described, or None.
    error: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)


async def find_brokers(coordination: ICoordination) -> list[tuple[str, int]]:
    """Return the addresses of the live brokers. Raises BrokerUnavailable when there is none, and CoordinationError."""
    brokers = await read_brokers(coordination)
    if not brokers:
        raise BrokerUnavailable("no broker is live: `logd brokers list` shows them")
    return [(broker.host, broker.port) for broker in brokers.values()]


async def partitions_of(coordination: ICoordination, entry: GroupEntry, topic: str | None) -> list[TopicPartition]:
    """Return the partitions that matter to a group, of all its topics or of one.

    These are the partitions of existing topics, and those in which the group has a position or an owner. Raises
    CoordinationError.
    """
    topics = {topic} if topic is not None else {*entry.topics, *await _subscribed(coordination, entry)}
    places = {where for where in (*entry.offsets, *entry.owners) if where.topic in topics}
    for name in topics:
        try:
            found = await read_topic(coordination, name)
        except (UnknownTopic, ValueError):
            continue
        places.update(TopicPartition(name, number) for number in found.partitions)
    return sorted(places)


async def _subscribed(coordination: ICoordination, entry: GroupEntry) -> list[str]:
    """Return the topics that the group's patterns match."""
    if not any(subscription.patterns for subscription in entry.consumers.values()):
        return []
    try:
        names = await coordination.get_children(paths.BROKER_TOPICS)
    except NoNode:
        return []
    return [name for name in names if entry.subscribed(name)]


@frozen
class LagReader:
    """Reads lags from the partitions' leaders.

    ``consumer()`` makes a Consumer of no group to count messages with; each ``read`` makes and closes one. ``now()`` is
    in seconds since the epoch and should agree with the brokers' clocks, since the lag in seconds depends on both.
    """

    admin: Admin
    consumer: Callable[[], Consumer]
    clock: Clock
    now: Callable[[], float]
    #: A lag of up to this number of bytes is read to count its messages; 0: never.
    count_bytes: int = 1 << 20
    #: True: find the age of the first unhandled message.
    seconds: bool = True

    async def read(self, entry: GroupEntry, places: list[TopicPartition]) -> list[PartitionLag]:
        """Describe these partitions, some at a time; a failure is reported in the partition's ``error``."""
        consumer = self.consumer()
        try:
            return await gather_some((self._one(entry, where, consumer) for where in places), AT_ONCE)
        finally:
            await consumer.close()

    async def _one(self, entry: GroupEntry, where: TopicPartition, consumer: Consumer) -> PartitionLag:
        owner, offset = entry.owners.get(where), entry.offsets.get(where)
        position = None if offset is None else offset.position
        stream = None if owner is None else owner.stream
        try:
            log = await self.admin.describe_log(*where)
            if position is None:
                unreadable = None if offset is None else offset.problem
                return PartitionLag(*where, stream, position, log.log_start, log.visible_end, error=unreadable)
            begin = min(max(position, log.log_start), log.visible_end)
            lag = log.visible_end - begin
            messages = seconds = problem = None
            if self.seconds:
                seconds = await age_at(self.admin, *where, begin, round(self.now() * 1000)) if lag else 0.0
            if lag <= self.count_bytes:
                try:
                    messages = await self._count(consumer, where, begin, log.visible_end) if lag else 0
                except BrokerUnavailable as error:
                    problem = str(error)
        except LogdError as error:
            return PartitionLag(*where, stream, position, error=str(error))
        lost = (position, begin) if position < begin else (begin, position) if position > begin else None
        if position > log.visible_end:
            problem = (
                f"position {position} is behind the log's end, {log.visible_end}; the topic may have been created again"
            )
        return PartitionLag(
            *where, stream, position, log.log_start, log.visible_end, lag, messages, seconds, lost, problem
        )

    async def _count(self, consumer: Consumer, where: TopicPartition, begin: int, end: int) -> int | None:
        """Return the number of messages in between; None if they cannot be read. Raises BrokerUnavailable."""
        (stream,) = consumer.create_message_streams(where.topic, 1, [where.partition], {where.partition: begin})
        try:
            batches = stream.batches({where.partition: end})
            complaint = f"{where}: its leader sent nothing of the {end - begin} bytes that were to be counted"
            count = 0
            while (batch := await with_patience(self.clock, _next(batches), complaint)) is not None:
                count += sum(message.id < end for message in batch.messages)
            return count
        except BrokerUnavailable as error:
            remedy = f"`logd topics describe {where.topic}` shows whether it is live; --count-below 0 does without"
            raise BrokerUnavailable(f"{error}: {remedy}") from error
        except LogdError:
            return None
        finally:
            stream.close()


async def _next(batches: AsyncIterator[MessageBatch]) -> MessageBatch | None:
    return await anext(batches, None)


async def first_message(consumer: Consumer, clock: Clock, where: TopicPartition, position: int) -> tuple[int, int]:
    """Return the position of the first message at or behind a position, and that of the next message.

    Raises LogdError: BrokerUnavailable when no message comes, since the leader is gone or only gaps follow.
    """
    (stream,) = consumer.create_message_streams(
        where.topic, 1, [where.partition], start={where.partition: Position(position)}
    )

    async def get() -> Message:
        return await stream.get()

    try:
        message = await with_patience(clock, get(), f"{where}: its leader sent no message from {position} on")
    except BrokerUnavailable as error:
        raise BrokerUnavailable(
            f"{error}, so it is not known whether one begins there: `logd topics describe {where.topic}` shows whether "
            "it is live; or give it a position where a message begins"
        ) from error
    return message.id, message.next_position


def streams_by_consumer(entry: GroupEntry) -> Iterator[tuple[str, dict[str, list[TopicPartition]]]]:
    """Yield each live consumer with its streams and their partitions; streams without partitions are left out."""
    for consumer in sorted(entry.consumers):
        own = re.compile(rf"{re.escape(consumer)}-\d+")
        streams: dict[str, list[TopicPartition]] = {}
        for where, owner in sorted(entry.owners.items()):
            if own.fullmatch(owner.stream):
                streams.setdefault(owner.stream, []).append(where)
        yield consumer, streams


def together(lags: list[PartitionLag], name: str) -> float | None:
    """Return the sum of a lag over partitions (of ``lag_seconds``: the greatest); None if one is not known."""
    values = [getattr(lag, name) for lag in lags]
    if any(value is None for value in values):
        return None
    return max(values, default=0.0) if name == "lag_seconds" else sum(values)
