"""Kafka's Metadata and ListOffsets."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from twisted.internet.defer import Deferred

from logd.broker.kafka.error_codes import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, kafka_code, kafka_code_of
from logd.broker.listening.kafka_addresses import Address
from logd.broker.reading import find_log
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.describe import DescribeRequests
from logd.errors import WireError
from logd.protocol.kafka.apis import APIS
from logd.protocol.requests.describe_log import DescribeLog
from logd.protocol.requests.metadata import MetadataResponse, MetadataV1, TopicMetadata

LIST_OFFSETS, METADATA = APIS[2], APIS[3]
_EARLIEST, _LATEST = -2, -1


class KafkaDescribing:
    """These requests of one connection. ``addresses()`` returns where its client reaches each broker."""

    def __init__(self, broker: BrokerCore, addresses: Callable[[], dict[int, Address]]) -> None:
        self._broker = broker
        self._addresses = addresses
        self.native = DescribeRequests(broker)

    async def metadata(self, request: Any) -> Any:
        """Return the brokers and the leaders; creates missing topics if request and broker allow it."""
        topics = request.topics
        names = (
            None if topics is None or (request.version == 0 and not topics) else tuple([each.name for each in topics])
        )
        create = names is not None and (request.version < 4 or bool(request.allow_auto_topic_creation))
        response = self.native.metadata(MetadataV1(names, create))
        found: MetadataResponse = await response if isinstance(response, Deferred) else response
        types = METADATA.response_class
        live = self._addresses()
        kind = types.MetadataResponseBroker
        return METADATA.response(
            throttle_time_ms=0,
            brokers=[kind(node_id=number, host=host, port=port, rack=None) for number, (host, port) in live.items()],
            cluster_id=found.cluster or None,
            controller_id=self._broker.store.broker_id,
            topics=[self._topic(types.MetadataResponseTopic, each, live) for each in found.topics],
        )

    def _topic(self, kind: Any, topic: TopicMetadata, live: Container[int]) -> Any:
        """Describe a topic. A partition whose leader has no address for this client has no leader for it."""
        partitions = [
            kind.MetadataResponsePartition(
                error_code=kafka_code_of(each.error) or (0 if each.leader in live else LEADER_NOT_AVAILABLE),
                partition_index=each.partition,
                leader_id=each.leader if each.leader in live else -1,
                leader_epoch=-1,
                replica_nodes=list(each.replicas),
                isr_nodes=list(each.in_sync),
                offline_replicas=[],
            )
            for each in topic.partitions
        ]
        return kind(error_code=kafka_code_of(topic.error), name=topic.topic, is_internal=False, partitions=partitions)

    async def list_offsets(self, request: Any) -> Any:
        """Return the offset of the first message, of the end, or of the first message at or after a time."""
        kind = LIST_OFFSETS.response_class.ListOffsetsTopicResponse
        topics = []
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                error, offset, time = await self._offset(topic.name, part.partition_index, part.timestamp)
                parts.append(
                    kind.ListOffsetsPartitionResponse(
                        partition_index=part.partition_index,
                        error_code=error,
                        old_style_offsets=[offset] if offset >= 0 else [],
                        timestamp=time,
                        offset=offset,
                        leader_epoch=-1,
                    )
                )
            topics.append(kind(name=topic.name, partitions=parts))
        return LIST_OFFSETS.response(throttle_time_ms=0, topics=topics)

    async def _offset(self, topic: str, partition: int, time: int) -> tuple[int, int, int]:
        """Return an error, an offset and its time; -1 for none."""
        try:
            log = find_log(self._broker.store, self._broker.topics, topic, partition)
        except WireError as error:
            return kafka_code(error), -1, -1
        if time == _EARLIEST:
            return 0, log.start, -1
        if time == _LATEST:
            return 0, log.visible_end, -1
        if time < 0:
            return UNKNOWN_TOPIC_OR_PARTITION, -1, -1
        response = self.native.describe_log(DescribeLog(topic, partition, (), time))
        found = await response if isinstance(response, Deferred) else response
        if found.error:
            return kafka_code_of(found.error), -1, -1
        return 0, found.time_position, time if found.time_position >= 0 else -1
