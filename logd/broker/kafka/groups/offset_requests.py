"""Kafka's OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from logd.broker.kafka.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    GROUP_SUBSCRIBED_TO_TOPIC,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_REQUEST,
    NON_EMPTY_GROUP,
    NOT_COORDINATOR,
    OFFSET_METADATA_TOO_LARGE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from logd.broker.kafka.groups.group import KafkaGroup
from logd.broker.kafka.groups.group_rights import GroupRefused, GroupRights, refusals
from logd.broker.kafka.groups.subscriptions import CONSUMER, subscribed_topics
from logd.broker.requests.core import BrokerCore
from logd.coord.kafka_groups.commit_operations import Committed
from logd.deferreds.fair_turns import FairTurns
from logd.protocol.kafka.apis import APIS
from logd.security.access_rules import Operation
from logd.topic import TopicPartition

OFFSET_COMMIT, OFFSET_FETCH, OFFSET_DELETE = APIS[8], APIS[9], APIS[47]

#: Bytes of the longest text beside a position, Kafka's default of offset.metadata.max.bytes.
_LONGEST_TEXT = 4096
#: From this version on an error of the whole answer has a field of its own.
_ERROR_OF_ALL_FROM = 2


class OffsetRequests:
    """These requests of one connection."""

    def __init__(self, broker: BrokerCore, rights: GroupRights) -> None:
        self._rights = rights
        self._groups = broker.kafka_groups.get()
        self._topics = broker.topics
        self._turns = broker.turns
        self._log = broker.administration_log

    async def commit(self, request: Any) -> Any:
        """Store positions for a group."""
        commits: dict[TopicPartition, Committed] = {}
        errors: dict[TopicPartition, int] = {}
        turns = self._turns()
        for topic in request.topics:
            for part in topic.partitions:
                if turns.over:
                    await turns.rest()
                where = TopicPartition(topic.name, part.partition_index)
                text = part.committed_metadata or ""
                error = self._refusal(where, part.committed_offset, text)
                if error:
                    errors[where] = error
                else:
                    commits[where] = Committed(part.committed_offset, text)
        error = 0
        if commits:
            try:
                self._rights.check(Operation.READ, request.group_id)
                error = await self._groups.commit(
                    request.group_id,
                    commits,
                    request.member_id,
                    request.group_instance_id,
                    request.generation_id_or_member_epoch,
                )
            except GroupRefused as refused:
                error = refused.code
        topics = []
        kind = OFFSET_COMMIT.response_class.OffsetCommitResponseTopic
        for topic in request.topics:
            row = kind(name=topic.name, partitions=[])
            topics.append(row)
            for part in topic.partitions:
                if turns.over:
                    await turns.rest()
                code = errors.get(TopicPartition(topic.name, part.partition_index), error)
                row.partitions.append(
                    kind.OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                )
        return OFFSET_COMMIT.response(throttle_time_ms=0, topics=topics)

    def _refusal(self, where: TopicPartition, position: int, text: str) -> int:
        forbidden = self._rights.topic_error(Operation.READ, where.topic)
        if forbidden:
            return forbidden
        entry = self._topics.get(where.topic)
        if entry is None or where.partition not in entry.partitions:
            return UNKNOWN_TOPIC_OR_PARTITION
        if position < 0:
            return INVALID_REQUEST
        return OFFSET_METADATA_TOO_LARGE if len(text.encode()) > _LONGEST_TEXT else 0

    async def fetch(self, request: Any) -> Any:
        """Return the positions of a group: of some partitions, or of all that have one."""
        asked = None
        if request.topics is not None:
            asked = [TopicPartition(each.name, number) for each in request.topics for number in each.partition_indexes]
        error = 0
        found: dict[TopicPartition, Committed | None] = dict.fromkeys(asked or ())
        turns = self._turns()
        forbidden = await self._forbidden(Operation.DESCRIBE, (each.topic for each in asked or ()), turns)
        try:
            self._rights.check(Operation.DESCRIBE, request.group_id)
            positions = await self._groups.positions(request.group_id)
            with refusals():
                if asked is None:
                    places = [each for each in await positions.places() if self._rights.may_describe_topic(each.topic)]
                else:
                    places = [each for each in asked if each.topic not in forbidden and self._is_name(each)]
                found.update(await positions.read(places))
        except GroupRefused as refused:
            # For COORDINATOR_NOT_AVAILABLE consumers have no remedy here: they fail. By this they look for it again.
            error = NOT_COORDINATOR if refused.code == COORDINATOR_NOT_AVAILABLE else refused.code
        kind = OFFSET_FETCH.response_class.OffsetFetchResponseTopic
        topics: dict[str, Any] = {}
        for where, commit in found.items():
            if turns.over:
                await turns.rest()
            topic = topics.get(where.topic)
            if topic is None:
                topic = topics[where.topic] = kind(name=where.topic, partitions=[])
            topic.partitions.append(
                kind.OffsetFetchResponsePartition(
                    partition_index=where.partition,
                    committed_offset=-1 if commit is None else commit.position,
                    committed_leader_epoch=-1,
                    metadata="" if commit is None else commit.metadata,
                    error_code=forbidden.get(where.topic, 0 if request.version >= _ERROR_OF_ALL_FROM else error),
                )
            )
        return OFFSET_FETCH.response(throttle_time_ms=0, error_code=error, topics=list(topics.values()))

    async def delete(self, request: Any) -> Any:
        """Delete positions of a group, but for topics that its members read."""
        error = 0
        read: set[str] = set()
        there: set[TopicPartition] = set()
        kept: set[TopicPartition] = set()
        forbidden: dict[str, int] = {}
        turns = self._turns()
        try:
            self._rights.check(Operation.DELETE, request.group_id)
            doomed = [
                TopicPartition(topic.name, part.partition_index)
                for topic in request.topics
                for part in topic.partitions
            ]
            forbidden = await self._forbidden(Operation.READ, (each.topic for each in doomed), turns)
            # Behind those turns: a group that gets members meanwhile may read what is to be deleted.
            held = await self._groups.held(request.group_id)
            look = partial(_read_topics, among=[each.name for each in request.topics], turns=turns)
            if held is not None:
                read = await look(held.group)
            positions = await self._groups.positions(request.group_id)
            with refusals():
                there = set(await positions.places())
            if not there and (held is None or not held.group.roster):
                raise GroupRefused(GROUP_ID_NOT_FOUND)
            wanted = [
                where for where in doomed if where in there and where.topic not in read and where.topic not in forbidden
            ]
            gone = await self._groups.forget(request.group_id, wanted, look)
            kept = set(wanted) - gone
            names = sorted({where.topic for where in gone})
            self._log.record(self._rights.requester, "delete positions of group", request.group_id, topics=names)
        except GroupRefused as refused:
            error = NON_EMPTY_GROUP if refused.code == INCONSISTENT_GROUP_PROTOCOL else refused.code
            reason = f"Kafka's error {error}"
            self._log.refused(self._rights.requester, "delete positions of group", request.group_id, reason)
        unknown = {each.name for each in request.topics if self._topics.get(each.name) is None}
        unknown -= {where.topic for where in there}
        errors = {
            **dict.fromkeys(unknown, UNKNOWN_TOPIC_OR_PARTITION),
            **dict.fromkeys(read, GROUP_SUBSCRIBED_TO_TOPIC),
            **forbidden,
        }
        topics = []
        kind = OFFSET_DELETE.response_class.OffsetDeleteResponseTopic
        for topic in () if error else request.topics:
            row = kind(name=topic.name, partitions=[])
            topics.append(row)
            code = errors.get(topic.name, 0)
            for part in topic.partitions:
                if turns.over:
                    await turns.rest()
                is_kept = TopicPartition(topic.name, part.partition_index) in kept
                row.partitions.append(
                    kind.OffsetDeleteResponsePartition(
                        partition_index=part.partition_index,
                        error_code=GROUP_SUBSCRIBED_TO_TOPIC if is_kept else code,
                    )
                )
        return OFFSET_DELETE.response(error_code=error, throttle_time_ms=0, topics=topics)

    async def _forbidden(self, operation: Operation, topics: Iterable[str], turns: FairTurns) -> dict[str, int]:
        """Return Kafka's errors for the topics on which this client may not do that."""
        found = {}
        for topic in dict.fromkeys(topics):
            if turns.over:
                await turns.rest()
            code = self._rights.topic_error(operation, topic)
            if code:
                found[topic] = code
        return found

    def _is_name(self, where: TopicPartition) -> bool:
        """Return whether there may be a position: names of no topic may not be names of nodes either."""
        return self._topics.get(where.topic) is not None and where.partition >= 0


async def _read_topics(group: KafkaGroup, among: Iterable[str], turns: FairTurns) -> set[str]:
    """Return those of some topics that the members of a group read. Raises GroupRefused if they are no consumers."""
    if not group.roster:
        return set()
    if group.roster.protocol_type != CONSUMER:
        raise GroupRefused(NON_EMPTY_GROUP)
    return await subscribed_topics(group, among, turns)
