"""Reads from the coordination tree, for tools outside a group, who is live, who owns what, and the positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from logd.coord import paths
from logd.coord.errors import NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.registries.consumers import ConsumerRegistry, Subscription
from logd.coord.registries.offsets import Offset, OffsetRegistry
from logd.coord.registries.owners import Owner, OwnerRegistry
from logd.deferreds.gathering import gather, gather_some
from logd.errors import LogdError
from logd.topic import TopicPartition

#: Groups that are read at a time.
READ_AT_ONCE = 10


class UnknownGroup(LogdError):
    """There is no group of that name in the tree."""


@frozen
class GroupEntry:
    """A group at a moment. Its parts were read one after another, so a rebalance may have happened in between."""

    name: str
    #: The live consumers, each with its subscription.
    consumers: Mapping[str, Subscription] = field(factory=dict)
    owners: Mapping[TopicPartition, Owner] = field(factory=dict)
    offsets: Mapping[TopicPartition, Offset] = field(factory=dict)
    #: The broker that coordinates members among Kafka's clients, -1 if its node cannot be read; None: there are none.
    coordinator: int | None = None

    @property
    def live(self) -> bool:
        """True if the group has a live consumer, or one whose session is not over yet; also among Kafka's clients."""
        return bool(self.consumers or self.owners) or self.coordinator is not None

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic with a position, an owner or a subscription in this group; sorted."""
        named = {topic for subscription in self.consumers.values() for topic in subscription.topics}
        return tuple(sorted(named.union(where.topic for where in (*self.owners, *self.offsets))))

    def subscribed(self, topic: str) -> bool:
        """Return whether a live consumer subscribes to the topic, by name or by a pattern."""
        return any(subscription.streams_of(topic) for subscription in self.consumers.values())


async def list_groups(coordination: ICoordination) -> list[str]:
    """Return the names of all groups, sorted. Raises CoordinationError."""
    return await _children(coordination, paths.CONSUMERS)


async def has_consumers(coordination: ICoordination, name: str) -> bool:
    """Return whether a group has live native consumers. Raises CoordinationError, and ValueError for a bad name."""
    return bool(await _children(coordination, paths.group_consumers(name)))


async def read_group(coordination: ICoordination, name: str) -> GroupEntry:
    """Read everything about one group. Raises UnknownGroup, CoordinationError, and ValueError for an invalid name."""
    path = paths.group(name)
    if await coordination.exists(path) is None:
        raise UnknownGroup(f"there is no group {name!r}: `logd groups list` shows the existing groups")
    registry = ConsumerRegistry(coordination, name)
    ids = await _children(coordination, registry.path)
    read = await gather(_subscription(registry, consumer) for consumer in ids)
    owned = await _children(coordination, f"{path}/owners")
    owners = await gather(OwnerRegistry(coordination, name).owners(topic) for topic in owned)
    placed = await _children(coordination, f"{path}/offsets")
    offsets = await gather(OffsetRegistry(coordination, name).read_all(topic) for topic in placed)
    return GroupEntry(
        name,
        {consumer: found for consumer, found in zip(ids, read, strict=True) if found is not None},
        {TopicPartition(t, p): owner for t, found in zip(owned, owners, strict=True) for p, owner in found.items()},
        {TopicPartition(t, p): offset for t, found in zip(placed, offsets, strict=True) for p, offset in found.items()},
        await registry.coordinator(),
    )


async def read_groups(coordination: ICoordination, names: Iterable[str]) -> list[GroupEntry]:
    """Read these groups, but for those that are deleted meanwhile. Raises CoordinationError."""

    async def read(name: str) -> GroupEntry | None:
        try:
            return await read_group(coordination, name)
        except UnknownGroup:
            return None

    found = await gather_some((read(name) for name in names), READ_AT_ONCE)
    return [each for each in found if each is not None]


async def _subscription(registry: ConsumerRegistry, consumer: str) -> Subscription | None:
    try:
        return await registry.read(consumer)
    except ValueError:
        return Subscription()  # unreadable, but live


async def _children(coordination: ICoordination, path: str) -> list[str]:
    try:
        return await coordination.get_children(path)
    except NoNode:
        return []
