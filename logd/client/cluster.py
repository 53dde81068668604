"""What a client knows of the brokers: their addresses, who leads which partition, and a link to each."""

from __future__ import annotations

import random as _random
from collections.abc import Callable, Sequence
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import Deferred, gatherResults, succeed

from logd.client.addresses import Address, discovered, parse_brokers
from logd.client.link import Connect, Connection, Link
from logd.client.numbers import in_words, is_among
from logd.client.settings import LinkSettings
from logd.client.warnings import warn_without_log
from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import BrokerUnavailable, PartitionOffline, UnknownTopic, WrongPartition, error_for_code
from logd.net.connection import BrokerConnection
from logd.protocol.metadata import Metadata, MetadataResponse, TopicMetadata


@frozen
class TopicView:
    """A topic as the brokers described it at ``read_at`` (clock's seconds)."""

    name: str
    uuid: Any
    #: All partitions, ascending.
    partitions: tuple[int, ...]
    #: The broker that leads each partition; a partition without a leader is not in it.
    leaders: dict[int, int]
    read_at: float
    #: The broker of each partition that is offline there: such a partition has no leader, but a reason to ask for.
    offline: dict[int, int] = field(factory=dict)
    #: The partitions that have a leader, ascending.
    available: tuple[int, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "available", tuple(p for p in self.partitions if p in self.leaders))


def default_connect(reactor: Any, settings: LinkSettings) -> Connect:
    """Connections over the network."""

    def connect(address: Address) -> Deferred[Connection]:
        connecting: Deferred[Any] = BrokerConnection.connect(
            reactor, address, timeout=settings.connect_timeout, max_frame_bytes=settings.frame_bytes
        )
        return connecting

    return connect


class Cluster:
    """Metadata and links, shared by the parts of one client."""

    def __init__(
        self,
        reactor: Any,
        brokers: str | Sequence[str | tuple[str, int]],
        settings: LinkSettings | None = None,
        *,
        connect: Connect | None = None,
        random: Callable[[], float] = _random.random,
    ) -> None:
        """``reactor`` gives time (without ``connect``, the network too). Raises ConfigurationError for ``brokers``.

        ``brokers`` may be () when ``begin_at`` tells them later.
        """
        if connect is None:
            warn_without_log()
        self.clock = reactor
        self.settings = settings = settings or LinkSettings()
        self.random = random
        self._connect = connect or default_connect(reactor, settings)
        self._bootstrap = () if brokers == () else parse_brokers(brokers)
        self._links: dict[Address, Link] = {}
        self._addresses: dict[int, Address] = {}
        self._topics: dict[str, TopicView] = {}
        self._asking: dict[tuple[str, bool], WaitingDeferreds[TopicView]] = {}

    def begin_at(self, addresses: Sequence[Address]) -> None:
        """Ask these brokers first from now on, when no connection is there."""
        self._bootstrap = tuple(addresses) or self._bootstrap

    def known(self, topic: str) -> TopicView | None:
        """What was last read about the topic. Never waits."""
        return self._topics.get(topic)

    def forget(self, topic: str) -> None:
        """Read the topic's metadata again before it is next used."""
        self._topics.pop(topic, None)

    def leader(self, topic: str, partition: int) -> Link:
        """The link to the partition's leader by what was last read.

        Raises WrongPartition when the topic has no such partition or it has no leader, PartitionOffline when its broker
        does not serve it, UnknownTopic when nothing was read.
        """
        if not self.settings.discover:
            return self.link(self._bootstrap[0])
        view = self._topics.get(topic)
        if view is not None and partition in view.offline:
            raise PartitionOffline(
                f"topic {topic!r}, partition {partition} is offline on broker {view.offline[partition]}; "
                f"`logd topics describe {topic}` says why"
            )
        return self.keeper(topic, partition)

    def keeper(self, topic: str, partition: int) -> Link:
        """The link to the broker that leads the partition, or would if it were not offline there.

        Raises as ``leader`` does, but for PartitionOffline.
        """
        if not self.settings.discover:
            return self.link(self._bootstrap[0])
        view = self._topics.get(topic)
        if view is None:
            raise UnknownTopic(f"nothing is known yet about topic {topic!r}")
        address = self._addresses.get(view.leaders.get(partition, view.offline.get(partition, -1)))
        if address is None:
            why = f"the topic has partitions {in_words(view.partitions)}"
            if is_among(partition, view.partitions):
                why = "it has no leader now, since no broker that stores it is live"
            raise WrongPartition(f"topic {topic!r}, partition {partition}: {why}")
        return self.link(address)

    def link(self, address: Address) -> Link:
        """The link to an address."""
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = Link(self.clock, address, self._connect, self.settings, self.random)
        return link

    async def any_link(self) -> tuple[Link, Connection]:
        """A live connection to any broker. Raises BrokerUnavailable, naming the last reason, when none can be had."""
        for link in self._links.values():
            if link.current is not None:
                return link, link.current
        links = [self.link(address) for address in (*self._bootstrap, *self._addresses.values())]
        error: BrokerUnavailable | None = None
        for link in dict.fromkeys(sorted(links, key=lambda link: link.next_attempt)):
            try:
                return link, await link.get()
            except BrokerUnavailable as failure:
                error = failure
        raise error or BrokerUnavailable("no broker's address is known")

    async def ask_any(self, request: Any) -> Any:
        """Send a request to any broker and return its response. Raises BrokerUnavailable."""
        link, connection = await self.any_link()
        return await link.ask(connection, request, self.settings.request_timeout)

    async def metadata(self, topics: tuple[str, ...] | None, create: bool = False) -> MetadataResponse:
        """Read metadata of some topics (None: of all), creating missing ones if asked to. Raises BrokerUnavailable."""
        response: MetadataResponse = await self.ask_any(Metadata(topics, create))
        self._addresses = {
            broker.id: discovered(broker.host, broker.port, self._bootstrap[0]) for broker in response.brokers
        }
        for topic in response.topics:
            if topic.error == 0:
                self._topics[topic.topic] = self._view(topic)
        return response

    def read(self, topic: str, create: bool = False) -> Deferred[TopicView]:
        """Read one topic's metadata; calls at the same time share one request. Cancellable.

        Fails with BrokerUnavailable, UnknownTopic, or what else the broker answers (TopicCreationDisabled,
        InvalidTopic ...).
        """
        key = topic, create
        asking = self._asking.get(key)
        if asking is not None:
            return asking.new()
        asking = self._asking[key] = WaitingDeferreds()
        waiter = asking.new()
        Deferred.fromCoroutine(self._read(topic, create))
        return waiter

    def refresh(self, topic: str) -> None:
        """Read a topic's metadata again, unless that is under way. What is known stays so until it was read."""
        if (topic, False) not in self._asking:
            self.read(topic).addErrback(lambda _: None)  # who uses what is known finds out what is wrong with it

    def close(self) -> Deferred[None]:
        """Close every connection once what was written has left."""
        if not self._links:
            return succeed(None)
        return gatherResults([link.close() for link in self._links.values()]).addCallback(lambda _: None)

    async def _read(self, topic: str, create: bool) -> None:
        key = topic, create
        try:
            response = await self.metadata((topic,), create)
            described = next((each for each in response.topics if each.topic == topic), None)
            if described is None:
                raise UnknownTopic(f"the broker said nothing about topic {topic!r}")
            if described.error != 0:
                raise error_for_code(described.error, f"topic {topic!r}: {error_for_code(described.error)}")
        except Exception as error:
            self._asking.pop(key).fail(error)
        else:
            self._asking.pop(key).fire(self._topics[topic])

    def _view(self, topic: TopicMetadata) -> TopicView:
        return TopicView(
            name=topic.topic,
            uuid=topic.uuid,
            partitions=tuple(sorted(each.partition for each in topic.partitions)),
            leaders={p.partition: p.leader for p in topic.partitions if p.error == 0 and p.leader in self._addresses},
            read_at=self.clock.seconds(),
            offline={
                p.partition: p.leader
                for p in topic.partitions
                if p.error == PartitionOffline.code and p.leader in self._addresses
            },
        )
