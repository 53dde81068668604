"""A client's cluster: the metadata last read, and a link to each broker."""

from __future__ import annotations

import random as _random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from twisted.internet.defer import Deferred, gatherResults, succeed

from logd.backoff import Backoff
from logd.client.cluster.authentication import authenticating_connect
from logd.client.cluster.link import BrokerLink, ClientConnection, Connect
from logd.client.log_warnings import warn_without_log
from logd.client.settings import LinkSettings
from logd.clientcore.addresses import Address, discovered, name_of, parse_brokers
from logd.clientcore.metadata import ClusterView, TopicView, described
from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import BrokerUnavailable, CannotConnect, LogdError, UnsupportedVersion, WrongPartition
from logd.net.connection import BrokerConnection, endpoint_for
from logd.net.credentials import find_credentials
from logd.plurals import counted
from logd.protocol.requests.metadata import Metadata, MetadataResponse, MetadataV1
from logd.security.credentials import FindCredentials


def default_connect(reactor: Any, settings: LinkSettings) -> Connect:
    """Return the function that connects over the network."""

    def connect(address: Address) -> Deferred[ClientConnection]:
        connecting: Deferred[Any] = BrokerConnection.connect(
            reactor, address, timeout=settings.connect_timeout, max_frame_bytes=settings.frame_bytes
        )
        return connecting

    return connect


#: The most addresses that an error names beside the last one.
MOST_NAMED = 3


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
        credentials: FindCredentials | None = None,
    ) -> None:
        """``reactor`` gives the time, and without ``connect`` the network. Raises ConfigurationError for bad
        ``brokers``, or a user without a password.

        ``brokers`` may be () when ``begin_at`` gives them later. ``credentials`` names the user of each connection, by
        default the one in the settings or the environment.
        """
        if connect is None:
            warn_without_log()
        self.clock = reactor
        self.settings = settings = settings or LinkSettings()
        self.random = random
        self._connect = connect or default_connect(reactor, settings)
        #: Returns whom to connect as; None for nobody.
        self.credentials = find = credentials or find_credentials(
            settings.user, settings.password, settings.password_file
        )
        if find is not None:
            self._connect = authenticating_connect(self._connect, find, reactor, settings.request_timeout)
        self._bootstrap = () if brokers == () else parse_brokers(brokers)
        if connect is None:  # an endpoint that cannot be made shows now, and not at the first connection
            for address in self._bootstrap:
                endpoint_for(reactor, address)
        self._links: dict[Address, BrokerLink] = {}
        self._view: ClusterView[Address] = ClusterView(lambda host, port: discovered(host, port, self._bootstrap[0]))
        self._asking: dict[tuple[str, bool, BrokerLink | None], WaitingDeferreds[TopicView]] = {}
        #: Topics about which a request has failed since their metadata was read.
        self._doubtful: set[str] = set()
        #: The questions to each broker about the leaders of another one's partitions, and those that are not answered.
        self._consulted: Counter[BrokerLink] = Counter()
        self._consulting: set[BrokerLink] = set()
        #: The link to the broker that answered the last such question: one that is sure to be alive.
        self._proven: BrokerLink | None = None
        self._closed = False
        #: Called with each topic that was forgotten, or of which other partitions or another message.format were read.
        self.changed: Callable[[str], None] = lambda topic: None

    def begin_at(self, addresses: Sequence[Address]) -> None:
        """Ask these brokers first from now on, while there is no connection."""
        self._bootstrap = tuple(addresses) or self._bootstrap

    def known(self, topic: str) -> TopicView | None:
        """Return the topic's metadata as last read. Never waits."""
        return self._view.known(topic)

    def is_old(self, topic: str) -> bool:
        """Return whether the last answer about a known topic, be it an error, is older than ``metadata_age``."""
        answered = self._view.last_answer(topic)
        return answered is not None and self.clock.seconds() - answered > self.settings.metadata_age

    @property
    def uuid(self) -> str:
        """Return the cluster's uuid, "" while no broker has named it."""
        return self._view.uuid

    def forget(self, topic: str) -> None:
        """Read the topic's metadata again before it is next used."""
        self._view.forget(topic)
        self.changed(topic)

    def given_first(self) -> BrokerLink:
        """Return the link to the first of the addresses that were given."""
        return self.link(self._bootstrap[0])

    def leader(self, topic: str, partition: int) -> BrokerLink:
        """Return the link to the partition's leader by the metadata last read.

        Raises WrongPartition when the topic has no such partition or the partition no leader, PartitionOffline when its
        broker does not serve it, UnknownTopic when no metadata was read.
        """
        if not self.settings.discover:
            return self.given_first()
        return self.link(self._view.leader(topic, partition))

    def keeper(self, topic: str, partition: int) -> BrokerLink:
        """Return the link to the broker that leads the partition, or would if the partition were not offline there.

        Raises as ``leader`` does, but for PartitionOffline.
        """
        if not self.settings.discover:
            return self.given_first()
        return self.link(self._view.keeper(topic, partition))

    async def find_keeper(self, topic: str, partition: int) -> BrokerLink:
        """Return what ``keeper`` does, reading metadata first if none is known, it names no broker, or it is doubtful.

        Raises WrongPartition, UnknownTopic, BrokerUnavailable, or another error that the broker answers.
        """
        if self.settings.discover and (self._view.known(topic) is None or topic in self._doubtful):
            self._doubtful.discard(topic)
            await self.read(topic)
        try:
            return self.keeper(topic, partition)
        except WrongPartition:
            if self.settings.discover:
                await self.read(topic)
            return self.keeper(topic, partition)

    @contextmanager
    def doubting(self, topic: str) -> Iterator[None]:
        """If this fails, ``find_keeper`` reads the topic's metadata again the next time."""
        try:
            yield
        except LogdError:
            self._doubtful.add(topic)
            raise

    def backoff(self) -> Backoff:
        """Return new retry delays as the settings have them."""
        return Backoff(self.settings.retry_delay, self.settings.retry_delay_limit, self.random)

    def link(self, address: Address) -> BrokerLink:
        """Return the link to an address; a closed one after ``close``."""
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = BrokerLink(
                self.clock,
                address,
                self._connect,
                self.settings,
                self.random,
                self._has_moved if self.settings.discover else None,
            )
            if self._closed:
                link.close()  # at once, as it has no connection
        return link

    async def any_link(self, beside: BrokerLink | None = None) -> tuple[BrokerLink, ClientConnection]:
        """Return a live connection to any broker. Raises BrokerUnavailable with the last reason when there is none.

        It is one to the broker of ``beside`` only if no other can be reached. The text names the other addresses that
        were tried, too.
        """
        for link in (*([] if self._proven is None else [self._proven]), *self._links.values()):
            if link.current is not None and link is not beside:
                return link, link.current
        links = [self.link(address) for address in (*self._bootstrap, *self._view.addresses)]
        error: BrokerUnavailable | None = None
        tried: list[str] = []
        for link in dict.fromkeys(sorted(links, key=lambda link: (link is beside, link.next_attempt))):
            try:
                return link, await link.get()
            except BrokerUnavailable as failure:
                error = failure
                tried.append(name_of(link.address))
        if isinstance(error, CannotConnect) and len(tried) > 1:
            raise CannotConnect(f"{error}; nor to {_some(tried[:-1])}", error.reason) from error
        raise error or BrokerUnavailable("no broker's address is known")

    async def ask_any(self, request: Any, beside: BrokerLink | None = None) -> Any:
        """Send a request to any broker, see ``any_link``, and return its response. Raises BrokerUnavailable."""
        link, connection = await self.any_link(beside)
        return await link.ask(connection, request, self.settings.request_timeout)

    async def ask_at(self, host: str, port: int, request: Any) -> Any:
        """Send a request to the broker that metadata name so, and return its response. Raises BrokerUnavailable."""
        link = self.link(discovered(host, port, self._bootstrap[0]))
        return await link.ask(await link.get(), request, self.settings.request_timeout)

    async def metadata(
        self, topics: tuple[str, ...] | None, create: bool = False, beside: BrokerLink | None = None
    ) -> MetadataResponse:
        """Read metadata of some topics (None: all), creating missing ones if ``create``. Raises BrokerUnavailable."""
        response: MetadataResponse
        try:
            response = await self.ask_any(MetadataV1(topics, create), beside)
        except UnsupportedVersion:  # a broker of an earlier release
            response = await self.ask_any(Metadata(topics, create), beside)
        for topic in self._view.read(response, self.clock.seconds()):
            self.changed(topic)
        for address in self._view.moved():
            if address in self._links and address not in self._bootstrap:
                self._links[address].moved()
        return response

    async def _has_moved(self, silent: BrokerLink, partitions: Collection[tuple[str, int]]) -> bool:
        """Ask another broker than a silent one, each in turn, whether others lead the partitions now.

        False if no other one is known, or those that are have not answered yet. Raises LogdError.
        """
        addresses = [each for each in self._view.addresses if each != silent.address]
        others = [self.link(each) for each in addresses or self._bootstrap if each != silent.address]
        others = [link for link in others if link not in self._consulting]
        if not others:
            return False
        link = min(others, key=lambda link: (self._consulted[link], link.current is None))
        self._consulted[link] += 1
        self._consulting.add(link)
        topics = tuple(sorted({topic for topic, _ in partitions}))
        timeout = self.settings.request_timeout
        try:
            connection = await link.get()
            try:
                response = await link.ask(connection, MetadataV1(topics), timeout)
            except UnsupportedVersion:  # a broker of an earlier release
                response = await link.ask(connection, Metadata(topics), timeout)
        finally:
            self._consulting.discard(link)
        self._proven = link
        return self._view.has_left(silent.address, partitions, response)

    def read(self, topic: str, create: bool = False, beside: BrokerLink | None = None) -> Deferred[TopicView]:
        """Read one topic's metadata; concurrent calls share one request. Cancellable.

        The broker of ``beside`` is asked only if no other one can be reached.

        Fails with BrokerUnavailable, UnknownTopic, or another error that the broker answers (TopicCreationDisabled,
        InvalidTopic ...).
        """
        key = topic, create, beside
        asking = self._asking.get(key)
        if asking is not None:
            return asking.new()
        asking = self._asking[key] = WaitingDeferreds()
        waiter = asking.new()
        Deferred.fromCoroutine(self._read(topic, create, beside))
        return waiter

    async def read_beside(self, topic: str, link: BrokerLink) -> TopicView:
        """Do as ``read``, but ask another broker than that of ``link`` if any other one answers."""
        try:
            return await self.read(topic, beside=link)
        except BrokerUnavailable:
            return await self.read(topic)

    def refresh(self, topic: str) -> None:
        """Read a topic's metadata again, unless that is under way. The old metadata is valid until then."""
        if (topic, False, None) not in self._asking:
            self.read(topic).addErrback(lambda _: None)  # callers that use the old metadata meet the error themselves

    def close(self) -> Deferred[None]:
        """Close every connection once its written bytes have left. Fails, if cancelled, with CancelledError."""
        self._closed = True
        if not self._links:
            return succeed(None)
        closing = gatherResults([link.close() for link in self._links.values()], consumeErrors=True)
        return closing.addCallbacks(lambda _: None, lambda failure: failure.value.subFailure)

    async def _read(self, topic: str, create: bool, beside: BrokerLink | None) -> None:
        key = topic, create, beside
        try:
            described(await self.metadata((topic,), create, beside), topic)
            view = self._view.known(topic)
            assert view is not None  # it was just described
        except Exception as error:
            self._asking.pop(key).fail(error)
        else:
            self._asking.pop(key).fire(view)


def _some(addresses: Sequence[str]) -> str:
    """Return the first of some addresses, and the number of the others."""
    shown, more = ", ".join(addresses[:MOST_NAMED]), len(addresses) - MOST_NAMED
    return f"{shown} and {counted(more, 'other')}" if more > 0 else shown
