"""The offset registry: how far a group has come in each partition, and the version that fences former owners.

The node ``/consumers/<group>/offsets/<topic>/<partition>`` holds the position of the next message to consume as decimal
text; it is empty while nothing was decided about a new group's start. Its version is the fence: whoever claims a
partition rewrites the node, and commits only with the version that it then has. So whatever a former owner still sends
meets another version, and fails.
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
    """A group's place in a partition: ``position`` (None: not decided yet) as of the node's ``version``."""

    position: int | None
    version: int
    #: Why the node's value is no position; None when it is one. Nothing may be consumed then: the place is unknown.
    problem: str | None = None


def encode_position(position: int | None) -> bytes:
    """The node's value."""
    return b"" if position is None else b"%d" % position


def decode_position(data: bytes) -> int | None:
    """Read a node's value; raise ValueError when it is not one."""
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
        """The nodes that have to be there before the first positions of these topics."""
        return [paths.group_offsets(self.group, topic) for topic in topics]

    async def read(self, where: TopicPartition) -> Offset | None:
        """The place in a partition; None where there is no node. Where a node has no position, ``problem`` says so."""
        try:
            data, stat = await self._coordination.get(self.path(where))
        except NoNode:
            return None
        try:
            return Offset(decode_position(data), stat.version)
        except ValueError as error:
            return Offset(None, stat.version, f"{self.path(where)}: {error}")

    async def read_all(self, topic: str) -> dict[int, Offset]:
        """The group's places in a topic."""
        try:
            names = await self._coordination.get_children(paths.group_offsets(self.group, topic))
        except NoNode:
            return {}
        numbers = decimals(names)
        reading = [Deferred.fromCoroutine(self.read(TopicPartition(topic, number))) for number in numbers]
        found = await gatherResults(reading, consumeErrors=True)
        return {number: offset for number, offset in zip(numbers, found, strict=True) if offset is not None}

    def fence(self, where: TopicPartition, found: Offset | None) -> Create | SetData:
        """The operation that a claim goes together with: what was ``found`` is written again, unless it has changed.

        It leaves version 0 (a new node) or ``found.version + 1``. BadVersion or NodeExists: read again.
        """
        if found is None:
            return Create(self.path(where), encode_position(None))
        return SetData(self.path(where), encode_position(found.position), found.version)

    def unchanged(self, where: TopicPartition, version: int) -> Check:
        """The operation that a release goes together with; BadVersion or NoNode: perhaps somebody else's by now."""
        return Check(self.path(where), version)

    def commit(self, where: TopicPartition, position: int, version: int) -> SetData:
        """The operation that stores a position; BadVersion or NoNode: the partition is somebody else's by now."""
        return SetData(self.path(where), encode_position(position), version)
