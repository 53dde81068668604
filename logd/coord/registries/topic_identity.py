"""The node that exists as long as the topic with one uuid does: whoever changes states of its partitions checks it.

A node that is made again begins with version 0. So the version of a state does not tell whether it is that of the topic
that a broker knows, or of one that has the name since.
"""

from __future__ import annotations

from logd.coord import paths
from logd.coord.errors import BadVersion, NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.records import Check, Create
from logd.coord.registries.topics import decode_entry


def check_identity(topic: str, uuid: str) -> Check:
    """Return the operation that fails with NoNode unless the topic has this uuid."""
    return Check(paths.topic_identity(topic, uuid))


async def make_identity(coordination: ICoordination, topic: str, uuid: str) -> bool:
    """Make the node of a topic that has none, as an earlier version has created it; return whether that was done.

    Raises CoordinationError.
    """
    try:
        data, stat = await coordination.get(paths.topic(topic))
        if decode_entry(topic, data).uuid != uuid:
            return False
        await coordination.multi([Check(paths.topic(topic), stat.version), Create(paths.topic_identity(topic, uuid))])
    except (NoNode, NodeExists, BadVersion, ValueError):
        return False
    return True
