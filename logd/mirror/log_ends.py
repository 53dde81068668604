"""Measures where the logs of the source end, which says how far a mirror is behind."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from logd.client.consumer.group_stream import GroupStream
from logd.deferreds.background import Background
from logd.errors import LogdError
from logd.interfaces import Clock
from logd.mirror.progress import PartitionProgress
from logd.topic import TopicPartition

_log = Logger()


async def measure_ends(
    stream: GroupStream,
    progress: Mapping[TopicPartition, PartitionProgress],
    clock: Clock,
    background: Background,
) -> None:
    """Ask for the ends of the visible logs of a stream's partitions, and note them in ``progress``, which has any key.

    A topic that does not answer keeps the ends that are known. Runs in ``background``, whose stop ends it.
    """
    for topic in sorted({where.topic for where in stream.partitions()}):
        try:
            ends = await stream.end_positions(topic)
        except (LogdError, CancelledError) as error:
            if background.was_stopped:  # otherwise the stream was closed, to be made again
                raise
            _log.debug("the ends of topic {topic} are not known now: {error!r}", topic=topic, error=error)
            continue
        for partition, end in ends.items():
            progress[TopicPartition(topic, partition)].ends_at(end, clock.seconds())
