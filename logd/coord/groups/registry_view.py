"""What one consumer of a group sees of the registries, and the share that Algorithm 1 gives it by that.

What it costs: every list and entry is kept until its watch fires (see watched), and a consumer's entry is read once for
each name (see registries.consumers). So a look after a consumer came or went costs one read of the list of ids, which
is as long as the group, and one of each entry that is new; a look after nothing changed costs nothing. In a group of C
consumers a coming or going fires C watches and makes C such reads, of C names each: the growth is quadratic in bytes,
and linear in operations. Where all C start at once each reads every entry: C times C small reads, once. Brokers and
topics are one watch each, and one for each topic that is read.
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

#: Entries of consumers that are read at the same time: when a group of a thousand starts, each member reads all.
AT_ONCE = 50


@frozen
class Registries:
    """The registries at a moment: who is in the group, and the partitions of each topic that are available (PT)."""

    consumers: Mapping[str, Subscription]
    partitions: Mapping[str, tuple[int, ...]]
    #: Each such topic's uuid: another one since a claim says that the topic was deleted and made again.
    uuids: Mapping[str, str] = field(factory=dict)
    #: The last change of the group's own node: another one since a claim says that positions were moved from outside.
    moved: int = 0

    def share(self, consumer: str) -> dict[TopicPartition, str]:
        """What Algorithm 1 gives a consumer: the stream for each of its partitions."""
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
    """Reads the registries for one consumer; calls ``changed()`` when something that it has read is not so any more."""

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
        """The registries, as far as they matter to a consumer with that subscription. Raises CoordinationError."""
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
        """The topics that are read, there or not; the list of all is read for patterns alone."""
        names = set(subscription.topics)
        if subscription.patterns:
            names.update(name for name in await self._names.get() or () if subscription.streams_of(name))
        return names

    async def _available(self, topic: str, live: frozenset[int]) -> tuple[str, tuple[int, ...]] | None:
        """A topic's uuid and PT; None where there is no topic, or none that can be read."""
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
            self._log.warn("{path} is left out: {error}", path=watched.path, error=error)
            return None

    async def _read_consumers(self, ids: list[str]) -> dict[str, Subscription]:
        """Everybody's subscription; those known by name are not read again."""
        known = self._consumers
        new = [name for name in ids if name not in known]
        found = await gather_some((self._consumer(name) for name in new), AT_ONCE)
        read = {name: entry for name, entry in zip(new, found, strict=True) if entry is not None}
        everybody = {**known, **read}
        self._consumers = {name: everybody[name] for name in ids if name in everybody}
        return self._consumers

    async def _consumer(self, name: str) -> Subscription | None:
        """Somebody's subscription: of one that cannot be read nobody, nor itself, is given anything."""
        try:
            return await self._registry.read(name)
        except (ValueError, NoAuth) as error:
            self._log.warn(
                "consumer {name} of group {group} is left out: {error}",
                name=name,
                group=self._registry.group,
                error=error,
            )
            return Subscription()


@lru_cache(128)
def _available(topic: str, data: bytes, live: frozenset[int]) -> tuple[str, tuple[int, ...]]:
    """The uuid and PT by a topic's entry. Kept: reading one of 10,000 partitions takes 60 ms, at each look of each."""
    entry = decode_entry(topic, data)
    return entry.uuid, tuple(available_partitions(entry, live))
