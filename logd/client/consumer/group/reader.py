"""A consumer's reader of its group: opens streams, gives them the claimed partitions, and reports handled positions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from logd.client.cluster.cluster import Cluster
from logd.client.consumer.fetching.fetcher import Fetcher
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.consumer.group.first_positions import FirstPositions
from logd.client.consumer.group.group_stream_state import GroupStreamState
from logd.client.consumer.group.listeners import GroupListeners, Listener
from logd.client.consumer.group.preparation import GroupPreparation
from logd.client.consumer.group.settings import GroupSettings
from logd.client.settings import ConsumerSettings
from logd.client.starting_positions import Position, Starts, start_for
from logd.coord.groups.interfaces import IGroupReader
from logd.coord.groups.membership import GroupMembership
from logd.coord.groups.records import Counts, Phase
from logd.coord.interfaces import ICoordination
from logd.coord.registries.brokers import watch_brokers
from logd.coord.registries.consumers import PatternStreams, Subscription, check_streams, pattern_text
from logd.deferreds.waiting import OneTimeEvent
from logd.errors import ConfigurationError, LogdError
from logd.topic import TopicPartition, check_topic_name


@implementer(IGroupReader)
class Group:
    """The group of a consumer, which decides on the partitions of its streams."""

    _log = Logger()

    def __init__(
        self,
        name: str,
        consumer: str,
        coordination: ICoordination,
        cluster: Cluster,
        fetcher: Fetcher,
        settings: ConsumerSettings,
        group_settings: GroupSettings,
        start: Starts,
        on_assigned: Listener | None,
        on_revoked: Listener | None,
        find_brokers: bool,
    ) -> None:
        """Join group ``name``. Raises ConfigurationError for a name that is not allowed.

        ``find_brokers``: learn the brokers' addresses from the tree.
        """
        self.name = name
        self._clock = cluster.clock
        self._cluster = cluster
        self._fetcher = fetcher
        self._settings = settings
        self._explicit = group_settings.commit == "handled"
        self._start = start
        self._listeners = GroupListeners(name, cluster.clock, on_assigned, on_revoked, group_settings.revoke_timeout)
        self._by_topic: dict[str, list[GroupStreamState]] = {}
        self._by_pattern: list[tuple[PatternStreams, list[GroupStreamState]]] = []
        #: Streams that were closed or dropped, until their handled positions are committed.
        self._ended_streams: list[GroupStreamState] = []
        self._closing = False
        #: Happens at the end of the close, which goes on without its callers.
        self._ended = OneTimeEvent()
        self._given: tuple[TopicPartition, ...] = ()
        try:
            self._membership = GroupMembership(
                coordination,
                self._clock,
                name,
                consumer,
                self,
                cluster.random,
                group_settings.timing,
                GroupPreparation(cluster, coordination, name).prepare,
            )
        except ValueError as error:
            raise ConfigurationError(f"group: {error}") from None
        self._first_positions = FirstPositions(cluster, self._membership.commit)
        self._brokers = watch_brokers(coordination, self._clock, self._broker_changed) if find_brokers else None
        if self._brokers is not None:
            self._brokers.start()

    @property
    def consumer(self) -> str:
        """Return this consumer's id in the group."""
        return self._membership.consumer

    @property
    def phase(self) -> Phase:
        """Return the phase of the membership: waiting, rebalancing, steady or left."""
        return self._membership.phase

    @property
    def counts(self) -> Counts:
        """Return the counts of rebalances, conflicts, errors, commits, lost partitions, and losses of contact."""
        return self._membership.counts

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that are delivered to this consumer's streams at the moment."""
        return self._given

    def settled(self) -> Deferred[None]:
        """Fire once this consumer has its share, by the group that it has seen. Fails with ClientClosed."""
        return self._membership.settled()

    def open(self, topic: str | re.Pattern[str], n: int) -> list[GroupStreamState]:
        """Return ``n`` streams over the group's share of a topic, or of all topics that a pattern matches.

        Raises ConfigurationError for a number of streams, or a pattern, that other members would not accept.
        """
        try:
            check_streams(n)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        if isinstance(topic, str):
            check_topic_name(topic)
            if topic in self._by_topic:
                raise ConfigurationError(f"topic {topic!r} has streams already: create all of its streams in one call")
            made = self._by_topic[topic] = self._make(topic, n)
        else:
            text = pattern_text(topic)
            made = self._make(text, n)
            self._by_pattern.append((PatternStreams(text, n), made))
        self._subscribe()
        return list(made)

    def end(self, stream: GroupStreamState) -> None:
        """End a stream: commit its handled positions, and release its partitions to others."""
        stream.close()
        if self._closing or stream in self._ended_streams:
            return
        self._ended_streams.append(stream)
        for topic, streams in tuple(self._by_topic.items()):
            if stream in streams:
                streams.remove(stream)
                if not streams:
                    del self._by_topic[topic]
        remaining = []
        for pattern, streams in self._by_pattern:
            if stream in streams:
                streams.remove(stream)
            if streams:
                remaining.append((PatternStreams(pattern.pattern, len(streams)), streams))
        self._by_pattern = remaining
        self._subscribe()

    def commit(self) -> Deferred[None]:
        """Commit handled positions. Fails with PartitionLost, ClientClosed, or a CoordinationError; cancellable."""
        return self._membership.commit()

    def close(self) -> Deferred[None]:
        """Stop, commit, give partitions back and sign off; fires when done. Never fails."""
        if not self._closing:
            self._closing = True
            if self._brokers is not None:
                self._brokers.stop()
            self._membership.leave().addCallback(lambda _: self._end())
        return self._ended.wait()

    # IGroupReader: called by the membership.

    def stop(self) -> Deferred[None] | None:
        """Stop the delivery of all partitions; see IGroupReader."""
        self._first_positions.void()
        for stream in self._streams_to_account_for():
            stream.stop()
        given, self._given = self._given, ()
        return self._listeners.revoke(given)

    def handled(self) -> Mapping[TopicPartition, int]:
        """Return the handled positions; see IGroupReader."""
        positions: dict[TopicPartition, int] = {}
        for stream in self._streams_to_account_for():
            positions.update(stream.handled_positions())
        return positions

    def start(
        self,
        streams: Mapping[TopicPartition, str],
        positions: Mapping[TopicPartition, int | None],
        uuids: Mapping[str, str],
    ) -> None:
        """Begin the delivery of claimed partitions; see IGroupReader."""
        fetches: dict[GroupStreamState, list[PartitionFetch]] = {stream: [] for stream in self._streams()}
        late: list[tuple[GroupStreamState, PartitionFetch]] = []
        self._first_positions.void()
        self._ended_streams.clear()
        self._given = tuple(sorted(streams))
        for where, name in sorted(streams.items()):
            mine = self._streams_of(where.topic)
            index = int(name.rpartition("-")[2])
            if index < len(mine):  # else the claim is older than the subscription, and is given back soon
                position = positions[where]
                start = start_for(self._start, where.partition) if position is None else Position(position)
                fetch = PartitionFetch(where.topic, where.partition, start, self._settings, uuids.get(where.topic))
                if position is None and start != "earliest":
                    late.append((mine[index], fetch))
                else:
                    fetches[mine[index]].append(fetch)
        for stream, given in fetches.items():
            stream.begin(given)
        for stream, fetch in late:
            self._first_positions.find(stream, fetch)
        self._listeners.assigned(self._given)

    def refused(self, error: LogdError) -> None:
        """Fail all streams until this consumer is a member; see IGroupReader."""
        for stream in self._streams():
            stream.fail(error)

    def lost(self, where: TopicPartition) -> None:
        """Stop the delivery of a partition that another consumer owns; see IGroupReader."""
        self._cluster.forget(where.topic)  # it may be another topic by now
        for stream in self._streams_to_account_for():
            stream.drop(where)
        if where in self._given:
            self._given = tuple(each for each in self._given if each != where)
            self._listeners.lost((where,))

    # Private.

    def _make(self, topic: str, n: int) -> list[GroupStreamState]:
        may_deliver = self._membership.may_deliver
        settings = self._settings
        return [
            GroupStreamState(topic, self._clock, self._fetcher, settings, self._explicit, may_deliver) for _ in range(n)
        ]

    def _streams(self) -> list[GroupStreamState]:
        every = [*self._by_topic.values(), *(streams for _, streams in self._by_pattern)]
        return [stream for streams in every for stream in streams]

    def _streams_to_account_for(self) -> list[GroupStreamState]:
        """Return the streams that may have positions to commit."""
        return [*self._ended_streams, *self._streams()]

    def _subscribe(self) -> None:
        self._membership.subscribe(
            Subscription(
                {name: len(made) for name, made in self._by_topic.items()},
                tuple(pattern for pattern, _ in self._by_pattern),
            )
        )

    def _streams_of(self, topic: str) -> list[GroupStreamState]:
        """Return the streams of a topic, by the rule of Subscription."""
        named = self._by_topic.get(topic)
        if named is not None:
            return named
        return next((streams for pattern, streams in self._by_pattern if pattern.matches(topic)), [])

    def _broker_changed(self, _name: str) -> None:
        if self._brokers is not None:
            self._cluster.begin_at([(broker.host, broker.port) for broker in self._brokers.values.values()])

    def _end(self) -> None:
        self._first_positions.stop()
        self._listeners.close()
        for stream in self._streams():
            stream.close()
        self._ended.happen()
