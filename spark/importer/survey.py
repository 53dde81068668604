"""Asks the brokers for the state of each partition: its uuid and ends."""

from __future__ import annotations

from contextlib import closing

from attrs import evolve

from logd.clientcore.metadata import topic_error
from logd.spark.blocking.cluster import BlockingCluster
from logd.spark.blocking.offsets import OffsetLimits, resolve
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.reading import RangeReader, ReadSettings
from logd.spark.blocking.subscription import SourceSubscription
from logd.spark.importer.errors import ImportFailed
from logd.spark.importer.import_plan import LogState, PlannedRange
from logd.spark.importer.targets.offsets import Lineage


def survey(
    cluster: BlockingCluster, subscription: SourceSubscription, starting: OffsetLimits, reading: ReadSettings
) -> list[LogState]:
    """Return the state of every partition of the subscription. Blocks; retries as the cluster's settings say.

    ``reading`` has the limits of a compressed set, inside which ``starting`` may be.

    Raises UnknownTopic for a topic asked for by name that does not exist, BrokerUnavailable, and other WireErrors.
    """
    states = []
    response = cluster.settled_metadata(subscription.names)
    for topic in response.topics:
        numbers = subscription.chosen(topic.topic, [each.partition for each in topic.partitions])
        if topic.error and (numbers or subscription.names is not None):
            raise topic_error(topic.topic, topic.error, cluster.settings.brokers)
        for number in numbers:
            place = starting.at(topic.topic, number)
            log = cluster.describe(topic.topic, number, time_ms=-1 if place.time_ms is None else place.time_ms)
            if log.uuid != topic.uuid:
                raise ImportFailed(f"topic {topic.topic!r} was created again at this moment: run the import again")
            lineage = Lineage(topic.topic, log.uuid, number)
            first = resolve(place, log)
            if place.time_ms is None and log.log_start < first < log.visible_end:
                first = _message_at(cluster, IdRange(topic.topic, log.uuid, number, first, log.visible_end), reading)
            states.append(LogState(lineage, log.log_start, log.visible_end, first))
    return states


def _message_at(cluster: BlockingCluster, rest: IdRange, reading: ReadSettings) -> int:
    """Return the beginning of a range's first message, which is before the range if that begins inside a message.

    A run's ranges contain only whole messages, so that its counts are those of its files.
    """
    if cluster.describe(rest.topic, rest.partition, (rest.start,)).boundaries[0] == rest.start:
        return rest.start
    reader = RangeReader(cluster, rest, evolve(reading, fetch_bytes=64 << 10, rows=1))
    rows = reader.rows()
    with closing(rows):
        first = next(rows, None)
    return rest.start if first is None else min(first.ids[0], rest.start)


def check_still_there(cluster: BlockingCluster, ranges: tuple[PlannedRange, ...]) -> None:
    """Raise ImportFailed unless each topic is still the planned one.

    A uuid is never given twice, so one that is the same before and after the load has not changed in between. The
    leaders are asked too, as another broker may hear late that a topic was made again.
    """
    planned = {each.lineage.topic: each.lineage.uuid for each in ranges}
    response = cluster.settled_metadata(tuple(planned))
    found = {each.topic: each.uuid for each in response.topics}
    for topic, uuid, partition in (each.lineage for each in ranges):
        if found.get(topic) != uuid or cluster.leader_uuid(topic, partition) not in (None, uuid):
            raise ImportFailed(
                f"topic {topic!r} was deleted or created again while it was loaded: run the import again"
            )
