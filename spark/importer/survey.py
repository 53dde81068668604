"""Asks the brokers what there is to load: each partition's uuid and ends."""

from __future__ import annotations

from logd.errors import error_for_code
from logd.spark.cluster import Cluster
from logd.spark.importer.errors import ImportFailed
from logd.spark.importer.offsets import Lineage
from logd.spark.importer.planning import LogState, PlannedRange
from logd.spark.offsets import Offsets, resolve
from logd.spark.subscription import Subscription


def survey(cluster: Cluster, subscription: Subscription, starting: Offsets) -> list[LogState]:
    """Return the state of every partition that is meant. Blocks; tries again for as long as the cluster's settings say.

    Raises UnknownTopic for a topic asked for by name that does not exist, BrokerUnavailable, and other WireErrors.
    """
    states = []
    response = cluster.retry(lambda: cluster.metadata(subscription.names))
    for topic in response.topics:
        numbers = subscription.chosen(topic.topic, [each.partition for each in topic.partitions])
        if topic.error and (numbers or subscription.names is not None):
            raise error_for_code(topic.error, f"topic {topic.topic!r}: {error_for_code(topic.error)}")
        for number in numbers:
            place = starting.at(topic.topic, number)
            log = cluster.describe(topic.topic, number, time_ms=-1 if place.time_ms is None else place.time_ms)
            if log.uuid != topic.uuid:
                raise ImportFailed(f"topic {topic.topic!r} was made again at this moment: run the import again")
            lineage = Lineage(topic.topic, log.uuid, number)
            states.append(LogState(lineage, log.log_start, log.visible_end, resolve(place, log)))
    return states


def check_still_there(cluster: Cluster, ranges: tuple[PlannedRange, ...]) -> None:
    """Raise ImportFailed unless each topic is the one that was planned for.

    A uuid is never given twice: one that is the same before and after the load was the same all the time.
    """
    planned = {each.lineage.topic: each.lineage.uuid for each in ranges}
    response = cluster.retry(lambda: cluster.metadata(tuple(planned)))
    found = {each.topic: each.uuid for each in response.topics}
    for topic, uuid in planned.items():
        if found.get(topic) != uuid:
            raise ImportFailed(f"topic {topic!r} was deleted or made again while it was loaded: run the import again")
