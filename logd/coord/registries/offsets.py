"""The offset registry: a group's position in each partition, and the version that fences former owners.

The node ``/consumers/<group>/offsets/<topic>/<partition>`` holds the position of the next message to consume as decimal
text; it is empty while the start of a new group is undecided. Its version is the fence: a claim of a partition rewrites
the node, and the owner commits only with the resulting version. So a late commit of a former owner meets another
version, and fails.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen
from twisted.internet.defer import Deferred, gatherResults

from logd.checkedjson import INT64_MAX, decimals, excerpt, whole_number
from logd.coord import paths
from logd.coord.errors import NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.records import Check, Create, SetData
from logd.topic import TopicPartition

#: Digits of the largest position.
_MOST_DIGITS = 19


@frozen
class Offset:
    """A group's position in a partition: ``position`` (None: undecided) as of the node's ``version``."""

    position: int | None
    version: int
    #: The reason why the node's value is no position, else None. Nothing may be consumed then: the place is unknown.
    problem: str | None = None


def encode_position(position: int | None) -> bytes:
    """The node's value."""
    return b"" if position is None else b"%d" % position


def decode_position(data: bytes) -> int | None:
    """Decode a node's value; raise ValueError for an invalid one."""
    if not data:
        return None
    if not data.isdigit() or len(data) > _MOST_DIGITS:
        raise ValueError(f"{excerpt(data[:40])} is no position")
    return whole_number(int(data), INT64_MAX)


class OffsetRegistry:
    """The positions of one group. Calls fail with a CoordinationError, as ICoordination's do."""

    def __init__(self, coordination: ICoordination, group: str) -> None:
        self._coordination = coordination
        self.group = group

    def path(self, where: TopicPartition) -> str:
        """The node of a partition's position."""
        return paths.group_offset(self.group, where.topic, where.partition)

    def parents(self, topics: Iterable[str]) -> list[str]:
        """Return the nodes that must exist before the first positions of these topics."""
        return [paths.group_offsets(self.group, topic) for topic in topics]

    async def read(self, where: TopicPartition) -> Offset | None:
        """Read a partition's offset; None if there is no node. ``problem`` tells why a node holds no position."""
        try:
            data, stat = await self._coordination.get(self.path(where))
        except NoNode:
            return None
        try:
            return Offset(decode_position(data), stat.version)
        except ValueError as error:
            return Offset(None, stat.version, f"{self.path(where)}: {error}")

    async def read_all(self, topic: str) -> dict[int, Offset]:
        """Read the group's offsets in a topic."""
        try:
            names = await self._coordination.get_children(paths.group_offsets(self.group, topic))
        except NoNode:
            return {}
        numbers = decimals(names)
        reading = [Deferred.fromCoroutine(self.read(TopicPartition(topic, number))) for number in numbers]
        found = await gatherResults(reading, consumeErrors=True)
        return {number: offset for number, offset in zip(numbers, found, strict=True) if offset is not None}

    def fence(self, where: TopicPartition, found: Offset | None) -> Create | SetData:
        """Return the operation that accompanies a claim: write ``found`` again, unless it has changed.

        Leaves version 0 (a new node) or ``found.version + 1``. After BadVersion or NodeExists, read again.
        """
        if found is None:
            return Create(self.path(where), encode_position(None))
        return SetData(self.path(where), encode_position(found.position), found.version)

    def unchanged(self, where: TopicPartition, version: int) -> Check:
        """Return the check that accompanies a release; BadVersion or NoNode: the partition may have another owner."""
        return Check(self.path(where), version)

    def commit(self, where: TopicPartition, position: int, version: int) -> SetData:
        """Return the operation that stores a position; BadVersion or NoNode: the partition has another owner."""
        return SetData(self.path(where), encode_position(position), version)
