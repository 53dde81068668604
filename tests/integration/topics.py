"""Topics made, filled and read by a client of the test's own process, for tests in which no command has to do it.

A command costs half a second of a processor for its start. The client here is the one of Spark's executors, which
blocks and needs no reactor.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from logd.protocol.message import Message
from logd.protocol.requests.create_delete_topic import CreateTopic, DeleteTopic
from logd.security.credentials import Credentials
from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
from logd.spark.blocking.producing import ExecutorProducer
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.reading import RangeReader


def _cluster(broker: str) -> BlockingCluster:
    """Return a client of the broker at this address."""
    return BlockingCluster(ClusterSettings(brokers=broker))


def create_topic(broker: str, topic: str, partitions: int = 1, **settings: int) -> None:
    """Create a topic; ``retention_ms=1`` stands for the setting ``retention.ms``."""
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    with _cluster(broker) as cluster:
        response = cluster.ask_any(CreateTopic(topic, partitions, dotted))
    assert response.error == 0, response


def delete_topic(broker: str, topic: str) -> None:
    """Delete a topic."""
    with _cluster(broker) as cluster:
        response = cluster.ask_any(DeleteTopic(topic))
    assert response.error == 0, response


def topic_names(broker: str) -> list[str]:
    """Return the names of all topics."""
    with _cluster(broker) as cluster:
        return [each.topic for each in cluster.metadata(None).topics]


def fill_topic(
    broker: str,
    topic: str,
    lines: Sequence[bytes],
    partition: int = 0,
    compression: str = "none",
    user: Credentials | None = None,
) -> None:
    """Send each line as a message with the time, as ``logd produce`` does; return once all are visible."""
    now = int(time.time() * 1000)
    with BlockingCluster(ClusterSettings(brokers=broker, credentials=user)) as cluster:
        producer = ExecutorProducer(cluster, compression)
        for line in lines:
            producer.send(topic, Message(line, timestamp=now), partition)
        producer.flush()


def log_ends(broker: str, topic: str) -> list[int]:
    """Return the end of the visible log of each partition."""
    with _cluster(broker) as cluster:
        count = len(cluster.topic(topic).partitions)
        return [cluster.describe(topic, number).visible_end for number in range(count)]


def read_partition(broker: str, topic: str, partition: int = 0) -> list[tuple[int, bytes]]:
    """Return the id and the value of each message that is visible; a tombstone's is empty."""
    with _cluster(broker) as cluster:
        log = cluster.describe(topic, partition)
        reader = RangeReader(cluster, IdRange(topic, log.uuid, partition, log.log_start, log.visible_end))
        rows = [each for part in reader.rows() for each in zip(part.ids, part.values, strict=True)]
        return [(number, value or b"") for number, value in rows]
