"""The consumer: opens streams over partitions, chosen or of a group's share, and fetches ahead within a bound."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from twisted.internet.defer import Deferred

from logd.client.audit.time_of_day import time_of_day
from logd.client.cluster.cluster import Cluster
from logd.client.cluster.link import Connect
from logd.client.consumer.consumer_state import ConsumerState
from logd.client.consumer.dropped import when_dropped
from logd.client.consumer.group.listeners import Listener
from logd.client.consumer.group.member_identity import connect_tree, consumer_id
from logd.client.consumer.group.reader import Group
from logd.client.consumer.group.settings import GroupSettings
from logd.client.consumer.group_stream import GroupStream
from logd.client.consumer.stream import MessageStream
from logd.client.dead_letters.writer import DeadLetters, check_not_among
from logd.client.setting_names import read_settings
from logd.client.settings import ConsumerSettings, LinkSettings
from logd.client.starting_positions import Starts, check_starts
from logd.coord.interfaces import ICoordination
from logd.coord.zookeeper.settings import CoordinationSettings
from logd.errors import ClientClosed, ConfigurationError
from logd.topic import check_topic_name


class Consumer:
    """A reader of topics of one cluster: of the partitions that it is given, or of its share of a consumer group.

    Use it on the reactor's thread (``logd.client.blocking`` otherwise). Settings are those of ConsumerSettings and
    LinkSettings, and with a group those of GroupSettings, by name: ``Consumer("host:6667", prefetch_bytes=1 << 20)``.

    Use it in a block of ``async with``, or call ``close``. A stream that is dropped without being closed gives back
    what it has, and so does a consumer once it is dropped with all its streams; a warning in the log says so.
    """

    def __init__(
        self,
        brokers: str | Sequence[str | tuple[str, int]] | None = None,
        *,
        start: Starts = "earliest",
        group: str | None = None,
        zookeeper: CoordinationSettings | str | None = None,
        coordination: ICoordination | None = None,
        consumer_name: str | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        reactor: Any = None,
        connect: Connect | None = None,
        random: Callable[[], float] | None = None,
        time_ms: Callable[[], int] = time_of_day,
        **settings: Any,
    ) -> None:
        """Read ``brokers``, the addresses to start from (see addresses.parse_brokers). Connects at the first stream.

        ``brokers`` is 127.0.0.1:6667 by default, or with a group the brokers that are registered in the tree.

        ``start``: where streams begin unless they say otherwise: "earliest", "latest", a position, ``Position`` or
        ``Time``; or a mapping from partitions to these. With a group: where partitions begin that have no committed
        position.

        ``group``: share topics with the other consumers of that group, coordinated in the tree at ``zookeeper``
        (``HOST:PORT,HOST:PORT/CHROOT``, by default 127.0.0.1:2181; or CoordinationSettings, for TLS and credentials)
        or by ``coordination``, which stays open. ``consumer_name`` begins this consumer's id in the group (by default
        the host's name and the process id). ``on_assigned(partitions)`` and ``on_revoked(partitions)`` are called with
        the partitions that came and went. ``on_revoked`` is called before positions are committed, and a Deferred that
        it returns is waited for.

        ``connect``, ``random`` and ``time_ms`` (the time of day, for the audit) are seams for tests. Raises
        ConfigurationError for a setting that is unknown or not allowed.
        """
        if reactor is None:
            from twisted.internet import reactor  # its import installs a reactor, so not before one is needed
        kinds = (ConsumerSettings, LinkSettings) if group is None else (ConsumerSettings, LinkSettings, GroupSettings)
        if group is not None and start in ("earliest", "latest"):
            settings = {"on_out_of_range": start, **settings}
        mine, links, *more = read_settings(settings, *kinds)
        check_starts(start)
        self.settings: ConsumerSettings = mine
        self._start = start
        find_brokers = brokers is None and group is not None
        if brokers is None:
            brokers = () if find_brokers else "127.0.0.1:6667"
        seams: dict[str, Any] = {} if random is None else {"random": random}
        cluster = Cluster(reactor, brokers, links, connect=connect, **seams)
        self._state = state = ConsumerState(cluster, mine, group or "", time_ms)
        when_dropped(self, reactor, state.abandon)
        #: The consumer's group, or None.
        self.group: Group | None = None
        if group is None:
            needless = {"zookeeper": zookeeper, "coordination": coordination, "consumer_name": consumer_name}
            for name, value in needless.items():
                if value is not None:
                    raise ConfigurationError(f"{name} = {value!r} is for consumers of a group: give group='NAME' too")
            return
        (in_group,) = more
        if coordination is None:
            coordination = state.coordination = connect_tree(reactor, zookeeper, in_group.session_timeout)
        elif zookeeper is not None:
            raise ConfigurationError("zookeeper and coordination exclude each other: give one of them")
        self.group = state.group = Group(
            group,
            consumer_id(consumer_name),
            coordination,
            cluster,
            state.fetcher,
            mine,
            in_group,
            start,
            on_assigned,
            on_revoked,
            find_brokers,
        )

    def create_message_streams(
        self,
        topic: str | re.Pattern[str],
        n: int,
        partitions: Sequence[int] | None = None,
        start: Starts | None = None,
    ) -> Sequence[MessageStream]:
        """Return ``n`` endless streams over which the topic's partitions are distributed (paper section 3.1).

        ``partitions``: these alone; by default all of them, read from the brokers in the background. A topic that does
        not exist is waited for. With more streams than partitions, some stay empty.

        In a group, the streams get the group's share, which changes (paper section 3.2), and ``topic`` may be a
        compiled pattern that must match the whole name: each stream then reads its share of every such topic, also of
        later ones. Patterns have no backreferences, lookahead or lookbehind. ``partitions`` and ``start`` are not for
        groups.

        Raises InvalidTopic for a name that no topic can have, ConfigurationError for a bad ``start`` and for arguments
        that exclude each other, ValueError for ``n`` below 1 and ClientClosed after ``close``.
        """
        check_not_among(topic, self.settings.dead_letters)
        if n < 1:
            raise ValueError(f"n = {n} is not allowed; allowed is a whole number from 1")
        state = self._state
        if state.closed:
            raise ClientClosed("the consumer is closed")
        if self.group is not None:
            if partitions is not None or start is not None:
                raise ConfigurationError("in a group neither partitions nor a start can be chosen for a stream")
            return [GroupStream(each, self, state) for each in state.open_in_group(self.group, topic, n)]
        if not isinstance(topic, str):
            raise ConfigurationError(f"a pattern, such as {topic.pattern!r}, is for consumers of a group")
        check_topic_name(topic)
        starts = self._start if start is None else start
        check_starts(starts)
        return [MessageStream(each, self, state) for each in state.open(topic, n, partitions, starts)]

    def dead_letters(self, topic: str) -> DeadLetters:
        """Return the writer of a dead-letter topic, for messages that an application cannot handle.

        It uses this consumer's connections and settings. Raises InvalidTopic.
        """
        return self._state.dead_letters(topic)

    def commit(self) -> Deferred[None]:
        """Commit the handled positions of a group's consumer (see GroupStream). Fires when they are stored.

        Fails with PartitionLost, naming partitions that another consumer owns by now (the others are stored), with a
        CoordinationError when the tree did not answer, with SessionExpired (one of these) from the end of a session
        until partitions are given again: what was handled since the last commit comes again. Fails with ClientClosed,
        too. Raises ConfigurationError without a group.
        """
        if self.group is None:
            raise ConfigurationError("commit() is for consumers of a group: give group='NAME'")
        return self.group.commit()

    def close(self) -> Deferred[None]:
        """End all streams and disconnect; fires when done. Never fails.

        In a group, handled positions are committed first and the partitions given back, so that others take over at
        once.
        """
        return self._state.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close, however the block ends: a group's partitions go to others at once when an application fails."""
        await self.close()
