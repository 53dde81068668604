"""The registries as one consumer of a group sees them, and the share that Algorithm 1 gives it from them.

Cost: every list and entry is cached until its watch fires (see cached_node.py), and a consumer's entry is read once
for each name (see registries.consumers). So after a consumer joined or left, a read costs one read of the list of ids,
which is as long as the group, and one of each new entry; without changes it costs nothing. In a group of C consumers,
each join or departure fires C watches and causes C such reads of C names each: quadratic growth in bytes, linear in
operations. When all C start at once each reads every entry: C times C small reads, once. The brokers and the list of
topics have one watch each, and each topic that is read has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from attrs import field, frozen
from twisted.logger import Logger

from logd.checkedjson import decimals
from logd.coord import paths
from logd.coord.errors import NoAuth
from logd.coord.groups.assignment import share_of
from logd.coord.groups.cached_node import Watched
from logd.coord.interfaces import ICoordination
from logd.coord.records import Stat
from logd.coord.registries.consumers import ConsumerRegistry, Subscription, stream_id, stream_ids
from logd.coord.registries.topics import available_partitions, decode_entry
from logd.deferreds.gathering import gather, gather_some
from logd.topic import TopicPartition

#: Consumer entries read at the same time: when a group of a thousand starts, each member reads all.
AT_ONCE = 50


@frozen
class Registries:
    """The registries at a moment: the consumers of the group, and each topic's available partitions (PT)."""

    consumers: Mapping[str, Subscription]
    partitions: Mapping[str, tuple[int, ...]]
    #: The uuid of each such topic: if another than at the claim, the topic was deleted and created again.
    uuids: Mapping[str, str] = field(factory=dict)
    #: The last change of the group's own node: if another than at the claim, positions were moved from outside.
    moved: int = 0

    def share(self, consumer: str) -> dict[TopicPartition, str]:
        """Return the share of a consumer by Algorithm 1: the stream of each of its partitions."""
        mine = self.consumers.get(consumer)
        shares: dict[TopicPartition, str] = {}
        for topic, partitions in self.partitions.items():
            count = 0 if mine is None else mine.streams_of(topic)
            if not count:
                continue
            streams = sorted(stream_ids(self.consumers, topic))
            places = {name: place for place, name in enumerate(streams)} if count > 1 else {}
            for index in range(count):
                name = stream_id(consumer, index)
                place = places[name] if places else streams.index(name)
                begin, end = share_of(place, len(streams), len(partitions))
                for partition in partitions[begin:end]:
                    shares[TopicPartition(topic, partition)] = name
        return shares


class GroupView:
    """Reads the registries for one consumer; calls ``changed()`` when something that was read has changed."""

    _log = Logger()

    def __init__(self, coordination: ICoordination, registry: ConsumerRegistry, changed: Callable[[], None]) -> None:
        self._coordination = coordination
        self._registry = registry
        self._changed = changed
        self._ids = self._children(registry.path)
        self._group = Watched(
            coordination, paths.group(registry.group), lambda path: coordination.get_and_watch(path), self._changed
        )
        self._brokers = self._children(paths.BROKER_IDS)
        self._names = self._children(paths.BROKER_TOPICS)
        self._entries: dict[str, Watched[tuple[bytes, Stat]]] = {}
        self._consumers: dict[str, Subscription] = {}

    async def read(self, subscription: Subscription) -> Registries:
        """Read the registries that matter to a consumer with that subscription. Raises CoordinationError."""
        ids, brokers = await gather([self._ids.get(), self._brokers.get()])
        group = await self._group.get()
        live = frozenset(decimals(brokers or []))
        names = await self._topics(subscription)
        for gone in set(self._entries) - names:
            self._entries.pop(gone).close()
        topics = sorted(names)
        found = await gather(self._available(topic, live) for topic in topics)
        consumers = await self._read_consumers(ids or [])
        there = {topic: available for topic, available in zip(topics, found, strict=True) if available is not None}
        return Registries(
            consumers,
            {topic: partitions for topic, (_, partitions) in there.items()},
            {topic: uuid for topic, (uuid, _) in there.items()},
            0 if group is None else group[1].modified_zxid,
        )

    def close(self) -> None:
        """Forget all watches."""
        everything: list[Watched[Any]] = [self._group, self._ids, self._brokers, self._names, *self._entries.values()]
        for watched in everything:
            watched.close()
        self._entries.clear()
        self._consumers = {}

    def _children(self, path: str) -> Watched[list[str]]:
        coordination = self._coordination
        return Watched(coordination, path, lambda path: coordination.get_children_and_watch(path), self._changed)

    async def _topics(self, subscription: Subscription) -> set[str]:
        """Return the subscribed topics, existing or not; the list of all topics is read for patterns alone."""
        names = set(subscription.topics)
        if subscription.patterns:
            names.update(name for name in await self._names.get() or () if subscription.streams_of(name))
        return names

    async def _available(self, topic: str, live: frozenset[int]) -> tuple[str, tuple[int, ...]] | None:
        """Return a topic's uuid and PT; None if there is no topic, or none that can be read."""
        watched = self._entries.get(topic)
        if watched is None:
            coordination = self._coordination
            watched = self._entries[topic] = Watched(
                coordination, paths.topic(topic), lambda path: coordination.get_and_watch(path), self._changed
            )
        try:
            found = await watched.get()
            return None if found is None else _available(topic, found[0], live)
        except (ValueError, NoAuth) as error:
            self._log.warn("ignoring {path}, which cannot be read: {error}", path=watched.path, error=error)
            return None

    async def _read_consumers(self, ids: list[str]) -> dict[str, Subscription]:
        """Read every consumer's subscription; names already known are not read again."""
        known = self._consumers
        new = [name for name in ids if name not in known]
        found = await gather_some((self._consumer(name) for name in new), AT_ONCE)
        read = {name: entry for name, entry in zip(new, found, strict=True) if entry is not None}
        everybody = {**known, **read}
        self._consumers = {name: everybody[name] for name in ids if name in everybody}
        return self._consumers

    async def _consumer(self, name: str) -> Subscription | None:
        """Read one consumer's subscription: if it cannot be read, nothing is assigned to that consumer by anybody."""
        try:
            return await self._registry.read(name)
        except (ValueError, NoAuth) as error:
            self._log.warn(
                "ignoring consumer {name} of group {group}, whose entry cannot be read: {error}",
                name=name,
                group=self._registry.group,
                error=error,
            )
            return Subscription()


@lru_cache(128)
def _available(topic: str, data: bytes, live: frozenset[int]) -> tuple[str, tuple[int, ...]]:
    """Return the uuid and PT of a topic's entry. Cached: parsing 10,000 partitions takes 60 ms for each reader."""
    entry = decode_entry(topic, data)
    return entry.uuid, tuple(available_partitions(entry, live))
