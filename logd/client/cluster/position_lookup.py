"""Lookups of positions by asking a partition's leader: the position of a start, and the next entry behind damage."""

from __future__ import annotations

from logd.client.cluster.cluster import Cluster
from logd.client.cluster.describe_log import describe_log
from logd.client.starting_positions import Position, Time, resolve, time_of
from logd.errors import UnknownTopic

#: The distance, in bytes, of the first boundary asked for: about one entry of the broker's index.
FIRST_STEP = 4096


async def locate_start(
    cluster: Cluster, topic: str, partition: int, start: str | Position | Time, uuid: str | None = None
) -> int:
    """Return the position of a start. Raises what describe_log raises.

    ``uuid`` is that of the topic that is meant. Raises UnknownTopic while the leader has another topic of that name.
    """
    if isinstance(start, Position):
        return start.value
    described = await describe_log(cluster, topic, partition, time=time_of(start))
    if uuid is not None and described.uuid != uuid:
        raise UnknownTopic(f"the leader of partition {partition} still has another topic {topic!r} than the tree")
    return resolve(start, described)


async def next_boundary(cluster: Cluster, topic: str, partition: int, position: int) -> int | None:
    """Return the nearest known entry boundary behind ``position``, at most the visible end.

    Returns None if the log ends at or before ``position`` by now. Raises what describe_log raises.
    """
    step = FIRST_STEP
    asked = []
    described = await describe_log(cluster, topic, partition)
    while position + step < described.visible_end:
        asked.append(position + step)
        step *= 2
    described = await describe_log(cluster, topic, partition, tuple(asked))
    known = [*described.boundaries, *(segment.start for segment in described.segments), described.visible_end]
    return min((boundary for boundary in known if boundary > position), default=None)
