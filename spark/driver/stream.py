"""The stream reader: takes offsets from the brokers' logs and plans batches within a budget."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from logd.errors import BrokerUnavailable, OffsetOutOfRange, UnknownTopic, error_for_code
from logd.protocol.entry import LENGTH_BYTES, size_by_length
from logd.protocol.requests.describe_log import DescribeLogResponse
from logd.protocol.requests.fetch_wait import FetchedPart, FetchPart, FetchWait
from logd.spark.blocking.cluster import BlockingCluster
from logd.spark.blocking.offsets import OffsetLimits
from logd.spark.blocking.progress import Progress, admit
from logd.spark.blocking.range_planning import PartitionName, find_partitions, plan_ranges, split_for_tasks
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.reading import DataLost
from logd.spark.blocking.sampling import SAMPLED_PARTITIONS, average_bytes
from logd.spark.driver.batch import read_partition, with_schemas
from logd.spark.driver.registry import WrittenSchemas
from logd.spark.worker.options import ReadOptions

T = TypeVar("T")

_log = logging.getLogger("logd.spark")


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. Its cache only saves requests: the checkpoint decides."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._cluster = BlockingCluster(options.cluster)
        self._schemas = WrittenSchemas(options.shape.registry)
        self._initial: Progress | None = None
        #: The end of a query with the trigger availableNow.
        self._last: dict[PartitionName, int] | None = None
        self._ends: dict[PartitionName, int] = {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if self._initial is None:  # Spark asks twice, and "latest" would move in between
            self._initial = Progress(self._agreed(self._first_places), initial=True)
        return self._initial.to_json()

    def _first_places(self) -> dict[PartitionName, int]:
        options = self._options
        ranges = plan_ranges(
            self._cluster,
            options.subscription,
            options.starting,
            OffsetLimits.of("latest"),
            options.reading.fail_on_data_loss,
        )
        return {PartitionName(r.topic, r.uuid, r.partition): r.start for r in ranges}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        size, messages = self._options.trigger_bytes, self._options.trigger_messages
        if messages is not None:
            return ReadMaxRows(messages)
        return ReadAllAvailable() if size is None else ReadMaxBytes(size)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = {name: log.visible_end for name, log in self._agreed(self._read_logs).items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        begun = Progress.from_json(start)
        logs = self._agreed(self._read_logs)
        for name, log in logs.items():
            shorter = log.visible_end < begun.positions.get(name, 0)
            if shorter and self._cluster.leads_no_more(name.topic, name.partition):
                logs[name] = self._cluster.describe(name.topic, name.partition)
        ends = {name: log.visible_end for name, log in logs.items()}
        if self._last is not None:
            last = {**begun.positions, **self._last}
            ends = {name: min(end, last[name]) for name, end in ends.items() if name in last}
        self._ends = ends
        kept = self._unlisted(begun.positions, ends)
        starts = {name: self._start(name, begun.positions.get(name), logs[name]) for name in ends}
        moved = {name: at for name, at in starts.items() if begun.initial or at > begun.positions.get(name, 0)}
        # An end before the start belongs to a log that has become shorter since.
        began = {
            name: at for name, at in {**begun.began, **moved}.items() if at <= starts.get(name, kept.get(name, -1))
        }
        ends = {name: max(end, starts[name]) for name, end in ends.items()}
        budget = self._budget(limit, starts, ends)
        return Progress({**kept, **admit(starts, ends, budget, _Asking(self._cluster))}, began).to_json()

    def _budget(
        self, limit: ReadLimit, starts: Mapping[PartitionName, int], ends: Mapping[PartitionName, int]
    ) -> int | None:
        """Return the bytes of log that a batch may take; None for no limit."""
        if isinstance(limit, ReadMaxBytes):
            return limit.max_bytes
        if not isinstance(limit, ReadMaxRows):
            return None
        most = sorted(ends, key=lambda name: starts[name] - ends[name])[:SAMPLED_PARTITIONS]
        size = average_bytes(
            self._cluster,
            [IdRange(name.topic, name.uuid, name.partition, starts[name], ends[name]) for name in most],
            self._options.reading,
        )
        return max(1, round(limit.max_rows * size))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return Progress(self._ends).to_json() if self._ends else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begun, reached = Progress.from_json(start), Progress.from_json(end)
        ranges = [
            IdRange(
                name.topic,
                name.uuid,
                name.partition,
                begun.start_of(name, reached),
                position,
            )
            for name, position in reached.positions.items()
        ]
        options = self._options
        pieces = split_for_tasks(self._cluster, ranges, options.range_bytes, options.min_partitions)
        return with_schemas(pieces, self._schemas)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: retention decides what brokers keep."""

    def stop(self) -> None:
        self._cluster.close()

    def __getstate__(self) -> dict[str, Any]:
        # Only what ``read`` needs is sent to the executors.
        return {
            "_options": self._options,
            "_schemas": None,
            "_initial": None,
            "_last": None,
            "_ends": {},
            "_cluster": None,
        }

    def _read_logs(self) -> dict[PartitionName, DescribeLogResponse]:
        logs = {}
        strict = self._options.reading.fail_on_data_loss
        for name in find_partitions(self._cluster, self._options.subscription, strict):
            try:
                log = self._cluster.describe(name.topic, name.partition)
            except UnknownTopic:  # a topic that is new, and is read later, or deleted (see _unlisted)
                continue
            logs[PartitionName(name.topic, log.uuid or name.uuid, name.partition)] = log
        return logs

    def _agreed(self, read: Callable[[], dict[PartitionName, T]]) -> dict[PartitionName, T]:
        """Return what is read, once all partitions of a topic have one uuid, as they have in an offset.

        If they differ, the topic was made again, and a leader has not heard of that yet. Raises BrokerUnavailable if
        that lasts.
        """
        attempts = self._cluster.attempts()
        while True:
            found = read()
            uuids = {name.topic: name.uuid for name in found}
            mixed = next((name.topic for name in found if uuids[name.topic] != name.uuid), None)
            if mixed is None:
                return found
            attempts.failed(BrokerUnavailable(f"topic {mixed!r} was made again, and its brokers do not agree yet"))

    def _unlisted(
        self, begun: Mapping[PartitionName, int], ends: Mapping[PartitionName, int]
    ) -> dict[PartitionName, int]:
        """Return the positions of partitions that are not listed now, although brokers know their topic.

        The broker that listed them may hear late of a topic or partition: without its position the stream would read it
        again from its beginning. Report topics of the stream that were deleted or recreated.
        """
        kept: dict[PartitionName, int] = {}
        listed = {name.topic: name.uuid for name in ends}
        known: dict[tuple[str, str], bool] = {}
        for name, position in begun.items():
            if name in ends:
                continue
            topic = name.topic, name.uuid
            if topic not in known:
                same = listed.get(name.topic, name.uuid) == name.uuid
                known[topic] = same and self._cluster.is_known(*topic)
            if known[topic]:
                kept[name] = position
                continue
            text = f"{name}: the topic was deleted or created again, and its unread messages are lost"
            if self._options.reading.fail_on_data_loss:
                raise DataLost(f"{text}; with failOnDataLoss=false the stream goes on with the remaining messages")
            _log.warning("%s", text)
        return kept

    def _start(self, name: PartitionName, position: int | None, log: DescribeLogResponse) -> int:
        """Return the position where the stream continues in a partition, moved into the log if it is outside."""
        if position is None:
            # A partition new to the stream is read from the beginning of its log, so that nothing is lost.
            if log.log_start:
                _log.warning("%s is new to the stream; its log begins at %d", name, log.log_start)
            return log.log_start
        if position < log.log_start:
            return self._lost(
                f"{name}: an unknown number of messages from {position} to {log.log_start} is lost: the log begins at "
                f"{log.log_start} now, because retention removed what was before or the log was lost",
                log.log_start,
            )
        if position > log.visible_end:
            return self._lost(
                f"{name}: an unknown number of messages between {log.visible_end} and {position} is lost: the log ends "
                f"at {log.visible_end} now, before {position}, the position of the stream",
                log.visible_end,
            )
        return position

    def _lost(self, text: str, position: int) -> int:
        if self._options.reading.fail_on_data_loss:
            raise DataLost(f"{text}; with failOnDataLoss=false the stream goes on at {position}")
        _log.warning("%s; the stream goes on at %d", text, position)
        return position


class _Asking:
    """Answers the queries of ``admit`` by asking the brokers."""

    def __init__(self, cluster: BlockingCluster) -> None:
        self._cluster = cluster

    def boundary(self, name: PartitionName, position: int) -> int:
        return self._cluster.describe(name.topic, name.partition, (position,)).boundaries[0]

    def entry_end(self, name: PartitionName, position: int) -> int:
        def once() -> int:
            # Not exact: a stream may begin inside an entry, and the length is at the entry's beginning.
            part = FetchPart(name.topic, name.partition, 0, position, LENGTH_BYTES)
            fetched: FetchedPart = self._cluster.ask_leader(
                name.topic, name.partition, FetchWait(500, LENGTH_BYTES, LENGTH_BYTES, (part,))
            ).parts[0]
            if fetched.error == OffsetOutOfRange.code and fetched.log_start > position:
                return fetched.log_start  # removed by retention; the task that reads from there reports it
            if fetched.error:
                raise error_for_code(fetched.error)
            if len(fetched.message_set) < LENGTH_BYTES:
                raise BrokerUnavailable(f"{name}: no answer has bytes from {position} on")
            return fetched.first_position + size_by_length(fetched.message_set)

        return self._cluster.retry(once)
