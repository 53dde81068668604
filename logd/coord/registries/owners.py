"""The ownership registry: the stream of a group that owns each partition.

An owner is an ephemeral node ``/consumers/<group>/owners/<topic>/<partition>`` with the stream's id as text. The maker
of the node owns the partition. The node is never changed, only created and deleted. These are the group's locks.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from attrs import frozen
from twisted.internet.defer import Deferred, gatherResults

from logd.checkedjson import decimals
from logd.coord import paths
from logd.coord.errors import NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.records import Create, Delete
from logd.topic import TopicPartition


@frozen
class Owner:
    """The owner of a partition: the stream's id, and the session that its claim ends with."""

    stream: str
    session_id: int


class OwnerRegistry:
    """The owners of one group's partitions. Calls fail with a CoordinationError, as ICoordination's do."""

    def __init__(self, coordination: ICoordination, group: str) -> None:
        self._coordination = coordination
        self.group = group

    def path(self, where: TopicPartition) -> str:
        """The node of a partition's owner."""
        return paths.group_owner(self.group, where.topic, where.partition)

    def parents(self, topics: Iterable[str]) -> list[str]:
        """Return the nodes that must exist before claims of these topics."""
        return [paths.group_owners(self.group, topic) for topic in topics]

    def claim(self, where: TopicPartition, stream: str) -> Create:
        """Return the operation that claims a partition for a stream; NodeExists means that another stream owns it."""
        return Create(self.path(where), stream.encode(), ephemeral=True)

    def release(self, where: TopicPartition) -> Delete:
        """Return the operation that releases a partition.

        A node does not tell its first maker from a later one. Send it together with ``OffsetRegistry.unchanged``, since
        each claim of a partition rewrites its offset.
        """
        return Delete(self.path(where))

    async def read(self, where: TopicPartition) -> Owner | None:
        """Read a partition's owner; None when it has none."""
        try:
            data, stat = await self._coordination.get(self.path(where))
        except NoNode:
            return None
        return Owner(data.decode(errors="replace"), stat.ephemeral_owner)

    async def release_if_ours(self, where: TopicPartition, stream: str) -> None:
        """Release a partition if that stream, under this session, owns it."""
        owner = await self.read(where)
        if owner == Owner(stream, self._coordination.session_id):
            with suppress(NoNode):
                await self._coordination.delete(self.path(where))

    async def owners(self, topic: str) -> dict[int, Owner]:
        """Read the owners of a topic's partitions; partitions without an owner are left out."""
        try:
            names = await self._coordination.get_children(paths.group_owners(self.group, topic))
        except NoNode:
            return {}
        numbers = decimals(names)
        reading = [self._coroutine(topic, number) for number in numbers]
        found = await gatherResults(reading, consumeErrors=True)
        return {number: owner for number, owner in zip(numbers, found, strict=True) if owner is not None}

    def _coroutine(self, topic: str, number: int) -> Deferred[Owner | None]:
        return Deferred.fromCoroutine(self.read(TopicPartition(topic, number)))
