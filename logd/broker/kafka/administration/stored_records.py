"""Kafka's DeleteRecords and DescribeLogDirs: the messages at the beginning of logs, and the bytes that logs take."""

from __future__ import annotations

from functools import partial
from typing import Any

from logd.broker.kafka.administration.refusals import Refused, outcome_of
from logd.broker.kafka.error_codes import KAFKA_STORAGE_ERROR, kafka_code, partition_code
from logd.broker.reading import find_log
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.create_delete_topic import check_administration
from logd.broker.security.rights import Rights
from logd.deferreds.callbacks import called_back
from logd.deferreds.gathering import for_each
from logd.errors import OffsetOutOfRange, WireError
from logd.protocol.kafka.apis import APIS
from logd.security.access_rules import Operation
from logd.topic import TopicPartition

DELETE_RECORDS, DESCRIBE_LOG_DIRS = APIS[21], APIS[35]
#: The offset that stands for the visible end.
_END = -1
#: Partitions of one request whose records are deleted at a time.
DELETED_AT_ONCE = 50


class KafkaStoredRecords:
    """These requests of one connection. Each deletion and each refusal stands in the log of administration."""

    def __init__(self, broker: BrokerCore, rights: Rights) -> None:
        self._broker = broker
        self._rights = rights

    async def delete_records(self, request: Any) -> Any:
        """Let logs begin at the offsets, also inside an entry; answers once that is durable."""
        kind = DELETE_RECORDS.response_class.DeleteRecordsTopicResult
        answers = [
            kind(
                name=topic.name,
                partitions=[
                    kind.DeleteRecordsPartitionResult(partition_index=part.partition_index, low_watermark=-1)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        works = [
            (TopicPartition(topic.name, part.partition_index), part.offset, answered)
            for topic, answer in zip(request.topics, answers, strict=True)
            for part, answered in zip(topic.partitions, answer.partitions, strict=True)
        ]

        log, requester = self._broker.administration_log, self._rights.requester

        async def delete(work: tuple[TopicPartition, int, Any]) -> None:
            place, offset, answered = work
            deleting = self._delete(place, offset, answered)
            outcome = await outcome_of(deleting, log, requester, "delete messages", f"{place.topic}-{place.partition}")
            answered.error_code = outcome.code

        await for_each(works, delete, min(DELETED_AT_ONCE, len(works)), self._broker.turns())
        return DELETE_RECORDS.response(throttle_time_ms=0, topics=answers)

    async def _delete(self, place: TopicPartition, offset: int, answered: Any) -> None:
        """Delete what is before an offset, and answer where the log begins now. Raises Refused and the log's errors."""
        self._rights.check_topic(Operation.DELETE, place.topic)
        check_administration(self._broker, "delete messages")
        try:
            log = find_log(self._broker.store, self._broker.topics, *place)
            if offset < _END:
                raise OffsetOutOfRange(f"there is no offset {offset}")
            position = log.visible_end if offset == _END else offset
            await called_back(partial(self._broker.store.delete_before, log, position))
        except WireError as error:
            raise Refused(partition_code(self._broker.topics, *place, error), str(error)) from error
        except OSError as error:
            raise Refused(KAFKA_STORAGE_ERROR, str(error)) from error
        answered.low_watermark = log.first
        name = f"{place.topic}-{place.partition}"
        self._broker.administration_log.record(self._rights.requester, "delete messages", name, before=log.first)

    async def describe_log_dirs(self, request: Any) -> Any:
        """Return the data directory, with the bytes of each partition's files; partitions that are offline have 0."""
        kind = DESCRIBE_LOG_DIRS.response_class.DescribeLogDirsResult
        try:
            self._rights.check_cluster(Operation.DESCRIBE)
        except WireError as error:
            refused = kind(error_code=kafka_code(error), log_dir="", topics=[])
            return DESCRIBE_LOG_DIRS.response(throttle_time_ms=0, results=[refused])
        wanted: dict[str, set[int]] = {}
        for each in request.topics or ():
            wanted.setdefault(each.topic, set()).update(each.partitions)
        # All of one moment: a log may be deleted while others are served.
        sizes: dict[str, list[tuple[int, int]]] = {}
        for log in self._broker.store.logs():
            if request.topics is None or log.partition in wanted.get(log.topic, ()):
                sizes.setdefault(log.topic, []).append((log.partition, log.end - log.segment_list.starts[0]))
        topics, turns = [], self._broker.turns()
        for topic, found in sorted(sizes.items()):
            row = kind.DescribeLogDirsTopic(name=topic, partitions=[])
            topics.append(row)
            for partition, size in sorted(found):
                if turns.over:
                    await turns.rest()
                row.partitions.append(
                    kind.DescribeLogDirsTopic.DescribeLogDirsPartition(
                        partition_index=partition, partition_size=size, offset_lag=0, is_future_key=False
                    )
                )
        result = kind(error_code=0, log_dir=self._broker.store.path, topics=topics)
        return DESCRIBE_LOG_DIRS.response(throttle_time_ms=0, results=[result])
