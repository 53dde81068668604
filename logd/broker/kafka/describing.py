"""Kafka's Metadata and DescribeCluster: brokers and their addresses, topics, partitions and their leaders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from twisted.internet import defer
from twisted.internet.defer import Deferred

from logd.broker.kafka.error_codes import (
    INVALID_TOPIC_EXCEPTION,
    LEADER_NOT_AVAILABLE,
    MISMATCHED_ENDPOINT_TYPE,
    kafka_code,
    kafka_code_of,
)
from logd.broker.listening.addresses import Address
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.describe import DescribeRequests
from logd.broker.security.rights import Rights
from logd.deferreds.timeouts import with_timeout
from logd.errors import InvalidTopic, WireError
from logd.log.epochs.history import NO_EPOCH
from logd.protocol.kafka.apis import APIS
from logd.protocol.requests.metadata import MetadataResponse, MetadataV1, PartitionMetadata, TopicMetadata
from logd.security.access_rules import Operation, ResourceType
from logd.topic import TopicEntry, check_topic_name

METADATA, DESCRIBE_CLUSTER = APIS[3], APIS[60]
#: Before this version an empty list of topics asks for all of them; from it on only null does.
_EMPTY_IS_NONE_FROM = 1
#: From this version on a request says whether missing topics may be created; before, they always may.
_SAYS_CREATE_FROM = 4
#: The operations of Kafka's access lists (AclOperation) on a topic and on a cluster, with the rights that they need.
_TOPIC_OPERATIONS = {
    3: Operation.READ,
    4: Operation.WRITE,
    5: Operation.CREATE,
    6: Operation.DELETE,
    7: Operation.ALTER,
    8: Operation.DESCRIBE,
    10: Operation.DESCRIBE,
    11: Operation.ALTER,
}
_CLUSTER_OPERATIONS = {
    5: Operation.CREATE,
    7: Operation.ALTER,
    8: Operation.DESCRIBE,
    9: Operation.ALTER,
    10: Operation.DESCRIBE,
    11: Operation.ALTER,
    12: Operation.WRITE,
}
_NO_BROKER = -1
_NO_ID = UUID(int=0)
#: Seconds for which an answer about a new topic waits until its leaders are known here.
_LEADERS_SECONDS = 1.0
#: The endpoints that DescribeCluster is asked for.
_BROKERS = 1


class KafkaDescribing:
    """These requests of one connection. ``addresses()`` returns where its client reaches each broker.

    Each broker calls itself the controller, since any broker creates, changes and deletes topics.
    """

    def __init__(self, broker: BrokerCore, addresses: Callable[[], dict[int, Address]], rights: Rights) -> None:
        self._broker = broker
        self._rights = rights
        self._addresses = addresses
        #: The handler of native requests.
        self.native = DescribeRequests(broker, rights)

    async def metadata(self, request: Any) -> Any:
        """Return the brokers and the leaders; creates missing topics if request and broker allow it."""
        version = request.version
        wanted = request.topics
        if wanted is not None and not wanted and version < _EMPTY_IS_NONE_FROM:
            wanted = None
        names = None if wanted is None else list(dict.fromkeys(each.name for each in wanted))
        valid = None if names is None else tuple(filter(_is_allowed, names))
        create = version < _SAYS_CREATE_FROM or bool(request.allow_auto_topic_creation)
        response = self.native.metadata(MetadataV1(valid, create and valid is not None))
        found: MetadataResponse = await response if isinstance(response, Deferred) else response
        by_name = {topic.topic: topic for topic in (*found.topics, *await self._new_topics(valid or ()))}
        # All of one moment, as a topic may be made again while others are served.
        entries = {name: self._broker.topics.get(name) for name in by_name}
        addresses, racks = self._addresses(), self._broker.addresses.racks()
        with_operations = bool(request.include_topic_authorized_operations)
        kind = METADATA.response_class
        topics, turns = [], self._broker.turns()
        for name in by_name if names is None else names:
            if turns.over:
                await turns.rest()
            operations = self._topic_operations(name) if with_operations else None
            topics.append(
                _topic(kind.MetadataResponseTopic, name, by_name.get(name), entries.get(name), addresses, operations)
            )
        return METADATA.response(
            throttle_time_ms=0,
            brokers=[
                kind.MetadataResponseBroker(node_id=number, host=host, port=port, rack=racks.get(number))
                for number, (host, port) in sorted(addresses.items())
            ],
            cluster_id=found.cluster or None,
            controller_id=self._broker.store.broker_id,
            topics=topics,
            authorized_operations=self._cluster_operations() if request.include_cluster_authorized_operations else None,
        )

    async def _new_topics(self, names: Collection[str]) -> tuple[TopicMetadata, ...]:
        """Return the topics that this broker has just heard of, once it has heard who leads them, or in a moment.

        A client that is told of no leader asks again. But librdkafka may not do so for five minutes, where a program
        asks it for offsets of partitions that it does not consume.
        """
        states = self._broker.replication.states
        new = tuple([name for name in names if not states.is_complete(name)])
        if not new or not states.is_connected:
            return ()

        async def complete() -> None:
            for name in new:
                await states.when_complete(name)

        with suppress(defer.TimeoutError):
            await with_timeout(self._broker.clock, _LEADERS_SECONDS, Deferred.fromCoroutine(complete()))
        response = self.native.metadata(MetadataV1(new, False))
        found: MetadataResponse = await response if isinstance(response, Deferred) else response
        return found.topics

    async def describe_cluster(self, request: Any) -> Any:
        """Return the brokers, as Metadata does. There are no controllers that clients could ask for."""
        error, text = 0, ""
        if request.endpoint_type not in (None, _BROKERS):
            error = MISMATCHED_ENDPOINT_TYPE
            text = f"endpoints of type {request.endpoint_type} are not served here, only brokers (1)"
        else:
            try:
                self._rights.check_cluster(Operation.DESCRIBE)
            except WireError as refusal:
                error, text = kafka_code(refusal), str(refusal)
        if error:
            return DESCRIBE_CLUSTER.response(
                throttle_time_ms=0,
                error_code=error,
                error_message=text,
                endpoint_type=_BROKERS,
                cluster_id="",
                brokers=[],
            )
        kind, racks = DESCRIBE_CLUSTER.response_class.DescribeClusterBroker, self._broker.addresses.racks()
        return DESCRIBE_CLUSTER.response(
            throttle_time_ms=0,
            error_code=0,
            error_message=None,
            endpoint_type=_BROKERS,
            cluster_id=self._broker.topics.cluster(),
            controller_id=self._broker.store.broker_id,
            brokers=[
                kind(broker_id=number, host=host, port=port, rack=racks.get(number), is_fenced=False)
                for number, (host, port) in sorted(self._addresses().items())
            ],
            authorized_operations=self._cluster_operations() if request.include_cluster_authorized_operations else None,
        )

    def _topic_operations(self, topic: str) -> set[int]:
        """Return Kafka's numbers of what the client may do with a topic."""
        may = self._rights.may
        return {number for number, each in _TOPIC_OPERATIONS.items() if may(each, ResourceType.TOPIC, topic)}

    def _cluster_operations(self) -> set[int]:
        """Return Kafka's numbers of what the client may do with the cluster."""
        may = self._rights.may
        return {number for number, each in _CLUSTER_OPERATIONS.items() if may(each, ResourceType.CLUSTER)}


def _is_allowed(name: object) -> bool:
    try:
        check_topic_name(name)  # type: ignore[arg-type]  # what is no text, such as null, raises TypeError
    except (InvalidTopic, TypeError):
        return False
    return True


def _topic(
    kind: Any,
    name: str,
    found: TopicMetadata | None,
    entry: TopicEntry | None,
    live: Mapping[int, object],
    operations: set[int] | None,
) -> Any:
    if found is None:
        # A null, which no version may have that is served, is told as an empty name.
        return kind(error_code=INVALID_TOPIC_EXCEPTION, name=name or "", is_internal=False, partitions=[])
    has_epochs = entry is not None and entry.replicated
    return kind(
        error_code=kafka_code_of(found.error),
        name=name,
        topic_id=_topic_id(entry),
        is_internal=False,
        partitions=[_partition(kind.MetadataResponsePartition, each, live, has_epochs) for each in found.partitions],
        authorized_operations=operations,
    )


def _topic_id(entry: TopicEntry | None) -> UUID:
    """Return the id by which clients tell topics of the same name apart, and so their epochs; zero if it is none."""
    try:
        return _NO_ID if entry is None else UUID(entry.uuid)
    except ValueError:  # of a topic that was entered by hand
        return _NO_ID


def _partition(kind: Any, found: PartitionMetadata, live: Mapping[int, object], has_epochs: bool) -> Any:
    """Return one partition; a leader that does not listen for Kafka's clients is none to them."""
    leads = found.leader in live
    return kind(
        error_code=kafka_code_of(found.error) if leads else LEADER_NOT_AVAILABLE,
        partition_index=found.partition,
        leader_id=found.leader if leads else _NO_BROKER,
        leader_epoch=found.leader_epoch if leads and has_epochs else NO_EPOCH,
        replica_nodes=list(found.replicas),
        isr_nodes=list(found.in_sync),
        offline_replicas=[broker for broker in found.replicas if broker not in live],
    )
