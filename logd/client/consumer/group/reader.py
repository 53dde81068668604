"""A consumer's part in its group: opens streams, gives them what the membership claimed, tells what is handled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from logd.client.cluster.cluster import Cluster
from logd.client.cluster.position_lookup import locate_start
from logd.client.consumer.fetching.fetcher import Fetcher
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.consumer.group.settings import GroupSettings
from logd.client.consumer.group.stream_state import GroupStreamState
from logd.client.settings import ConsumerSettings
from logd.client.starting_positions import Position, Starts, start_for
from logd.coord.errors import CoordinationError
from logd.coord.groups.interfaces import IGroupReader
from logd.coord.groups.rebalance import GroupMembership
from logd.coord.groups.records import Counts, Phase
from logd.coord.interfaces import ICoordination
from logd.coord.registries.brokers import watch_brokers
from logd.coord.registries.consumers import PatternStreams, Subscription, check_streams, pattern_text
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.deferreds.timeouts import with_timeout
from logd.errors import BrokerUnavailable, ClientClosed, ConfigurationError, PartitionLost, WireError
from logd.topic import TopicPartition, check_topic_name

#: Told which partitions came, or went. The latter may return a Deferred, which is waited for.
Listener = Callable[[Sequence[TopicPartition]], Any]


@implementer(IGroupReader)
class Group:
    """What ``Consumer(group=...)`` has in place of partitions of its own choosing."""

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
        """``find_brokers``: learn their addresses from the tree. Raises ConfigurationError for a group's name."""
        self.name = name
        self._clock = cluster.clock
        self._cluster = cluster
        self._fetcher = fetcher
        self._settings = settings
        self._explicit = group_settings.commit == "handled"
        self._revoke_timeout = group_settings.revoke_timeout
        self._start = start
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._by_topic: dict[str, list[GroupStreamState]] = {}
        self._by_pattern: list[tuple[PatternStreams, list[GroupStreamState]]] = []
        #: Streams that nobody reads any more, until what was handled of them is committed.
        self._ended_streams: list[GroupStreamState] = []
        self._closing = False
        self._given: tuple[TopicPartition, ...] = ()
        #: How often partitions were given: what was begun for an earlier time is of no use.
        self._starts = 0
        self._background = Background("a group's reading")
        try:
            self._membership = GroupMembership(
                coordination, self._clock, name, consumer, self, cluster.random, group_settings.timing
            )
        except ValueError as error:
            raise ConfigurationError(f"group: {error}") from None
        self._brokers = watch_brokers(coordination, self._clock, self._broker_changed) if find_brokers else None
        if self._brokers is not None:
            self._brokers.start()

    @property
    def consumer(self) -> str:
        """This consumer's id in the group."""
        return self._membership.consumer

    @property
    def phase(self) -> Phase:
        """What it is doing: waiting, rebalancing, steady, left."""
        return self._membership.phase

    @property
    def counts(self) -> Counts:
        """What it has gone through: rebalances, conflicts, commits, partitions lost, silences."""
        return self._membership.counts

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """What is delivered to this consumer's streams at the moment."""
        return self._given

    def settled(self) -> Deferred[None]:
        """Fires once it has its share of the group by what it has seen. Fails with ClientClosed."""
        return self._membership.settled()

    def open(self, topic: str | re.Pattern[str], n: int) -> list[GroupStreamState]:
        """``n`` streams over the group's share of a topic, or of all that a pattern matches.

        Raises ConfigurationError for a number of streams, or a pattern, that the others would not take.
        """
        try:
            check_streams(n)
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        if isinstance(topic, str):
            check_topic_name(topic)
            if topic in self._by_topic:
                raise ConfigurationError(f"topic {topic!r}: there are streams of it already; ask for more at once")
            made = self._by_topic[topic] = self._make(topic, n)
        else:
            text = pattern_text(topic)
            made = self._make(text, n)
            self._by_pattern.append((PatternStreams(text, n), made))
        self._subscribe()
        return list(made)

    def end(self, stream: GroupStreamState) -> None:
        """Nobody reads a stream any more: commit what is handled of it, and let others have its partitions."""
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
        """Store what is handled. Fails with PartitionLost, ClientClosed, or a CoordinationError; cancellable."""
        return self._membership.commit()

    def close(self) -> Deferred[None]:
        """Stop, commit, give back and sign off; fires when that is done. Never fails."""
        self._closing = True
        if self._brokers is not None:
            self._brokers.stop()
        return self._membership.leave().addCallback(lambda _: self._end())

    # IGroupReader: what the membership tells.

    def stop(self) -> Deferred[None] | None:
        """See IGroupReader."""
        for stream in self._streams_to_account_for():
            stream.stop()
        given, self._given = self._given, ()
        if given and self._on_revoked is not None:
            told = maybeDeferred(self._on_revoked, given)
            if not told.called:
                with_timeout(self._clock, self._revoke_timeout, told)
            return told.addCallbacks(lambda _: None, self._listener_failed)
        return None

    def handled(self) -> Mapping[TopicPartition, int]:
        """See IGroupReader."""
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
        """See IGroupReader."""
        fetches: dict[GroupStreamState, list[PartitionFetch]] = {stream: [] for stream in self._streams()}
        late: list[tuple[GroupStreamState, PartitionFetch]] = []
        self._starts += 1
        self._ended_streams.clear()
        self._given = tuple(sorted(streams))
        for where, name in sorted(streams.items()):
            mine = self._streams_of(where.topic)
            index = int(name.rpartition("-")[2])
            if index < len(mine):  # else it was claimed before the subscription changed, and is given back soon
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
            self._background.start(self._begin_late(stream, fetch))
        self._tell(self._on_assigned, self._given)

    def lost(self, where: TopicPartition) -> None:
        """See IGroupReader."""
        self._cluster.forget(where.topic)  # which may be another one by now
        for stream in self._streams_to_account_for():
            stream.drop(where)
        if where in self._given:
            self._given = tuple(each for each in self._given if each != where)
            self._tell(self._on_revoked, (where,))

    # The inside.

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
        """The streams of which something may have to be committed."""
        return [*self._ended_streams, *self._streams()]

    def _subscribe(self) -> None:
        self._membership.subscribe(
            Subscription(
                {name: len(made) for name, made in self._by_topic.items()},
                tuple(pattern for pattern, _ in self._by_pattern),
            )
        )

    def _streams_of(self, topic: str) -> list[GroupStreamState]:
        """The streams of a topic, by the rule of Subscription."""
        named = self._by_topic.get(topic)
        if named is not None:
            return named
        return next((streams for pattern, streams in self._by_pattern if pattern.matches(topic)), [])

    async def _begin_late(self, stream: GroupStreamState, fetch: PartitionFetch) -> None:
        """Begin a partition of a new group; where that is gets stored before anything is handed over.

        Else a kill before the first commit would move the end of the log, and what came in between would be passed by.
        """
        starts = self._starts
        backoff = self._cluster.backoff()
        while starts == self._starts and self._given:
            try:
                if fetch.start is not None:
                    position = await locate_start(
                        self._cluster,
                        fetch.topic,
                        fetch.partition,
                        fetch.start,
                        fetch.uuid,
                    )
                    if starts != self._starts:
                        return
                    fetch.seek(position)
                    stream.expect(fetch)
                await self._membership.commit()
            except ClientClosed:
                return
            except (BrokerUnavailable, WireError, CoordinationError, PartitionLost) as error:
                where = TopicPartition(fetch.topic, fetch.partition)
                self._log.debug("{where}: no start yet: {error!r}", where=where, error=error)
                await sleep(self._clock, backoff.next())
            else:
                if starts == self._starts and self._given:
                    stream.more(fetch)
                return

    def _tell(self, listener: Listener | None, places: Sequence[TopicPartition]) -> None:
        if listener is not None and places:
            maybeDeferred(listener, places).addErrback(self._listener_failed)

    def _listener_failed(self, failure: Failure) -> None:
        self._log.failure("a listener of group {group} failed", failure, group=self.name)

    def _broker_changed(self, _name: str) -> None:
        if self._brokers is not None:
            self._cluster.begin_at([(broker.host, broker.port) for broker in self._brokers.values.values()])

    def _end(self) -> None:
        self._background.stop()
        for stream in self._streams():
            stream.close()
