"""Plans ranges of ids for a subscription, by asking the brokers for partitions and the ends of their logs.

Runs on the driver; blocking, and without pyspark.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from attrs import frozen

from logd.clientcore.metadata import topic_error
from logd.clientcore.start_resolution import EARLIEST
from logd.errors import ConfigurationError, UnknownTopic, WrongPartition
from logd.protocol.requests.describe_log import DescribeLogResponse
from logd.spark.blocking.cluster import BlockingCluster
from logd.spark.blocking.offsets import At, OffsetLimits, resolve
from logd.spark.blocking.ranges import IdRange, split_ranges
from logd.spark.blocking.reading import DataLost
from logd.spark.blocking.subscription import SourceSubscription

_log = logging.getLogger("logd.spark")


@frozen(order=True)
class PartitionName:
    """One partition of a topic; ``uuid`` distinguishes the topic from another of the same name."""

    topic: str
    uuid: str
    partition: int

    def __str__(self) -> str:
        return f"topic {self.topic!r}, partition {self.partition}"


def find_partitions(
    cluster: BlockingCluster, subscription: SourceSubscription, strict: bool = True
) -> list[PartitionName]:
    """Return the partitions of the subscription that exist, by topic and number.

    Raises UnknownTopic for a topic that is named and does not exist (unless ``strict`` is false; a pattern may match
    none), ConfigurationError for a partition that was assigned and does not exist, BrokerUnavailable when no broker
    answers for ``retry_timeout``.
    """
    response = cluster.settled_metadata(subscription.names)
    found = []
    for topic in response.topics:
        if topic.error == UnknownTopic.code and not strict:
            continue
        if topic.error:
            raise topic_error(topic.topic, topic.error, cluster.settings.brokers)
        numbers = [each.partition for each in topic.partitions]
        chosen = subscription.chosen(topic.topic, numbers)
        missing = set((subscription.assigned or {}).get(topic.topic, ())) - set(numbers)
        if missing:
            raise ConfigurationError(f"topic {topic.topic!r} has no partition {min(missing)}: it has {sorted(numbers)}")
        found += [PartitionName(topic.topic, topic.uuid, number) for number in chosen]
    return sorted(found)


def locate(cluster: BlockingCluster, partition: PartitionName, at: At) -> tuple[int, DescribeLogResponse]:
    """Return the position of a limit, and the log's description. Raises as BlockingCluster.describe."""
    log = cluster.describe(partition.topic, partition.partition, time_ms=-1 if at.time_ms is None else at.time_ms)
    return resolve(at, log), log


def plan_ranges(
    cluster: BlockingCluster,
    subscription: SourceSubscription,
    starting: OffsetLimits,
    ending: OffsetLimits,
    fail_on_data_loss: bool,
) -> list[IdRange]:
    """Return one range for each partition, empty ones too, all within the logs.

    Raises DataLost for a start or an end that is not in the log; without
    ``fail_on_data_loss`` these are moved into the log with a warning. Raises ConfigurationError for places in
    partitions that are not read, for partitions that they leave out, and for an end before the start, and the errors
    of find_partitions and BlockingCluster.describe.
    """
    partitions = find_partitions(cluster, subscription)
    _check_places(partitions, starting, "starting")
    _check_places(partitions, ending, "ending")
    ranges = []
    for each in partitions:
        limits = starting.at(each.topic, each.partition), ending.at(each.topic, each.partition)
        start, log, end, later = _both_ends(cluster, each, *limits)
        beyond = start > log.visible_end or end > later.visible_end
        if beyond and cluster.leads_no_more(each.topic, each.partition):
            start, log, end, later = _both_ends(cluster, each, *limits)
        for name, position, there in (("starting", start, log), ("ending", end, later)):
            if not there.log_start <= position <= there.visible_end:
                _report(
                    f"{each}: the {name} offset {position} is not in the log, which has {there.log_start} to "
                    f"{there.visible_end}: an unknown number of messages between the two is lost",
                    fail_on_data_loss,
                )
        if end < start and start <= log.visible_end and starting.at(each.topic, each.partition) != At(EARLIEST):
            raise ConfigurationError(f"{each}: the ending offset {end} is before the starting offset {start}")
        start = min(max(start, log.log_start), log.visible_end)
        end = min(max(end, start), later.visible_end)
        ranges.append(IdRange(each.topic, log.uuid or each.uuid, each.partition, start, end))
    return ranges


def _both_ends(
    cluster: BlockingCluster, partition: PartitionName, first: At, last: At
) -> tuple[int, DescribeLogResponse, int, DescribeLogResponse]:
    """Return the positions of both limits, each with the log's description at that moment."""
    start, log = locate(cluster, partition, first)
    # A log grows until its end is asked for by a time.
    end, later = (resolve(last, log), log) if last.time_ms is None else locate(cluster, partition, last)
    return start, log, end, later


def split_for_tasks(
    cluster: BlockingCluster, ranges: Sequence[IdRange], max_bytes: int, at_least: int
) -> list[IdRange]:
    """Split ranges into one for each task; see ranges.split_ranges. Raises as BlockingCluster.describe."""

    def boundaries(topic: str, partition: int, positions: Sequence[int]) -> Sequence[int]:
        try:
            return cluster.describe(topic, partition, positions).boundaries
        except (UnknownTopic, WrongPartition):
            return ()  # the task that reads the range reports it, according to its settings

    return split_ranges(ranges, boundaries, max_bytes=max_bytes, at_least=at_least)


def _check_places(partitions: Sequence[PartitionName], offsets: OffsetLimits, which: str) -> None:
    """Raise ConfigurationError unless places for each partition are for all that are read, and no others."""
    known = {(each.topic, each.partition) for each in partitions}
    named = {(topic, number) for topic, places in offsets.places.items() for number in places}
    for topic, number in sorted(named - known):
        raise ConfigurationError(f"{which}Offsets name topic {topic!r}, partition {number}, which is not read")
    for topic, number in sorted(known - named) if named else ():
        raise ConfigurationError(
            f"{which}Offsets leave out topic {topic!r}, partition {number}, which is read: name a place for every "
            "partition (-2 is earliest, -1 latest), or one word for all"
        )


def _report(text: str, fail_on_data_loss: bool) -> None:
    if fail_on_data_loss:
        raise DataLost(f"{text}; with failOnDataLoss=false reading goes on with the remaining messages")
    _log.warning("%s", text)
