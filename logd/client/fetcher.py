"""Keeps feeds filled: which partitions are asked for together, of which broker, and what happens when that fails."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from attrs import define, field
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.client.background import Background
from logd.client.backoff import Backoff
from logd.client.cluster import Cluster, TopicView
from logd.client.describe import describe_log
from logd.client.feed import Feed
from logd.client.fetchwindow import Wanted
from logd.client.link import Connection, Link
from logd.client.locate import locate_start, next_boundary
from logd.client.settings import ConsumerSettings
from logd.errors import BrokerUnavailable, ClientClosed, OffsetOutOfRange, ProtocolViolation, WireError, error_for_code
from logd.protocol.fetch_wait import FetchedPart, FetchPart, FetchWait, FetchWaitResponse
from logd.protocol.requests import MAX_ITEMS

#: Room in an answer's frame for what is around the sets.
FRAME_MARGIN = 64 << 10
#: Bytes that are held for a partition at least, however many there are.
LEAST_SHARE = 256


@define(eq=False)
class _Entry:
    """A feed and what the fetcher does for it at the moment."""

    feed: Feed
    arrived: Callable[[Feed], None]
    backoff: Backoff
    #: Whether it waits for metadata, a position or a delay.
    held_up: bool = field(default=False)


class Fetcher:
    """One consumer's fetches. Each request covers the partitions that want something at that moment."""

    _log = Logger()

    def __init__(self, cluster: Cluster, settings: ConsumerSettings) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._settings = settings
        self._entries: dict[Feed, _Entry] = {}
        self._background = Background(cluster.clock)
        self._scheduled = False
        self._connecting: set[Link] = set()
        self._closed = False

    @property
    def share(self) -> int:
        """Bytes that may be held for one partition: its part of the whole, but enough to see an entry's length."""
        return max(LEAST_SHARE, self._settings.prefetch_bytes // max(1, len(self._entries)))

    def add(self, feed: Feed, arrived: Callable[[Feed], None]) -> None:
        """Fill this feed; ``arrived(feed)`` is called when there is something to take or its ``error`` is set."""
        links = self._cluster.settings
        backoff = Backoff(links.retry_delay, links.retry_delay_limit, self._cluster.random)
        self._entries[feed] = _Entry(feed, arrived, backoff)
        self.wake()

    def remove(self, feed: Feed) -> None:
        """Stop filling this feed."""
        self._entries.pop(feed, None)

    def wake(self) -> None:
        """Look at all feeds at the end of this turn of the reactor: some want something."""
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._clock.callLater(0, self._woken)

    async def visible_end(self, topic: str, partition: int) -> int:
        """Where the partition's visible log ends now. Raises what describe_log raises."""
        return (await describe_log(self._cluster, topic, partition)).visible_end

    def close(self) -> None:
        """Ask for nothing more."""
        self._closed = True
        self._background.close()
        self._entries.clear()

    def _woken(self) -> None:
        self._scheduled = False
        self._issue()

    def _issue(self) -> None:
        """Send a request to each broker that leads a partition which wants something."""
        if self._closed:
            return
        share = self.share
        wanted: dict[Link, list[tuple[_Entry, Wanted]]] = {}
        for entry in list(self._entries.values()):
            feed = entry.feed
            if entry.held_up or feed.error is not None:
                continue
            if feed.start is not None or feed.lost_at is not None:
                if self._is_of_its_topic(entry):
                    self._begin(entry, self._locate(entry))
                continue
            want = feed.wanted(share)
            if want is None or not self._is_of_its_topic(entry):
                continue
            try:
                link = self._cluster.leader(feed.topic, feed.partition)
            except WireError as error:
                self._trouble(entry, error)
                continue
            wanted.setdefault(link, []).append((entry, want))
        for link, wants in wanted.items():
            if link.current is not None:
                for at in range(0, len(wants), MAX_ITEMS):
                    self._send(link, link.current, wants[at : at + MAX_ITEMS])
            elif link not in self._connecting:
                self._connecting.add(link)
                link.get().addCallbacks(
                    self._connected, self._unreachable, callbackArgs=(link,), errbackArgs=(link, wants)
                )

    def _is_of_its_topic(self, entry: _Entry) -> bool:
        """Whether the feed's position is of the topic that has its name now; if not, that is seen to."""
        feed, cluster = entry.feed, self._cluster
        if not cluster.settings.discover:
            return True
        view = cluster.known(feed.topic)
        if view is None and feed.start is not None and not feed.fixed:
            return True  # who finds out where that is reads the metadata
        if view is None or feed.doubted:
            feed.doubted = False
            self._begin(entry, self._recover(entry, at_once=True))
            return False
        if cluster.clock.seconds() - view.read_at > cluster.settings.metadata_age:
            cluster.refresh(feed.topic)
        if feed.uuid is None:
            feed.uuid = view.uuid
        if feed.uuid != view.uuid:
            self._begin(entry, self._recover(entry) if feed.fixed else self._go_over(entry, view))
            return False
        return True

    def _send(self, link: Link, connection: Connection, wants: list[tuple[_Entry, Wanted]]) -> None:
        settings = self._settings
        parts = []
        total = 0
        for entry, want in wants:
            feed = entry.feed
            feed.asked(want)
            total += want.max_bytes
            parts.append(FetchPart(feed.topic, feed.partition, 0, want.offset, want.max_bytes, want.exact))
        most = min(total, self._cluster.settings.frame_bytes - FRAME_MARGIN - 256 * len(parts))
        request = FetchWait(int(settings.max_wait * 1000), 1, max(1, most), tuple(parts))
        answer = link.ask(connection, request, settings.max_wait + self._cluster.settings.request_timeout)
        answer.addCallbacks(
            self._answered, self._failed, callbackArgs=(connection, wants), errbackArgs=(wants,)
        ).addErrback(self._bug)

    def _answered(
        self, response: FetchWaitResponse, connection: Connection, wants: list[tuple[_Entry, Wanted]]
    ) -> None:
        if len(response.parts) != len(wants):
            connection.abort()
            self._failed(Failure(ProtocolViolation("the broker's answer is not about the partitions asked for")), wants)
            return
        arrived = []
        for (entry, want), part in zip(wants, response.parts, strict=True):
            feed = entry.feed
            if feed not in self._entries:
                continue
            if part.error == 0:
                entry.backoff.reset()
                if feed.received(want, part.first_position, part.message_set, part.visible_end):
                    arrived.append(entry)
                else:  # at the end: go behind the others in the next request
                    self._entries[feed] = self._entries.pop(feed)
            elif part.error == OffsetOutOfRange.code:
                if entry.held_up:
                    feed.answered(want)
                else:
                    self._begin(entry, self._out_of_range(entry, want, part))
            elif feed.answered(want):
                self._trouble(entry, error_for_code(part.error))
        self._issue()  # before anything is decoded: the broker works while we do
        for entry in arrived:
            entry.arrived(entry.feed)

    def _failed(self, failure: Failure, wants: list[tuple[_Entry, Wanted]]) -> None:
        for entry, want in wants:
            if entry.feed.answered(want):
                self._trouble(entry, failure.value)

    def _connected(self, _: object, link: Link) -> None:
        self._connecting.discard(link)
        self._issue()

    def _unreachable(self, failure: Failure, link: Link, wants: list[tuple[_Entry, Wanted]]) -> None:
        self._connecting.discard(link)
        if not failure.check(ClientClosed):
            for entry, _ in wants:
                self._trouble(entry, failure.value)
            self.wake()

    def _trouble(self, entry: _Entry, error: BaseException | None) -> None:
        """Something is wrong with a partition: read metadata again after a while, unless trying again is no use."""
        if entry.held_up or self._closed:
            return
        feed = entry.feed
        if isinstance(error, WireError) and not error.retriable:
            feed.error = error
            entry.arrived(feed)
            return
        self._log.debug(
            "topic {topic}, partition {partition}: fetching again after {error!r}",
            topic=feed.topic, partition=feed.partition, error=error,
        )  # fmt: skip
        self._begin(entry, self._recover(entry))

    def _begin(self, entry: _Entry, work: Coroutine[Any, Any, None]) -> None:
        entry.held_up = True
        self._background.start(work)

    async def _recover(self, entry: _Entry, at_once: bool = False) -> None:
        while not self._closed and entry.feed in self._entries:
            if not at_once:
                await self._background.sleep(entry.backoff.next())
            at_once = False
            try:
                if self._cluster.settings.discover:
                    await self._cluster.read(entry.feed.topic)
            except (BrokerUnavailable, WireError) as error:
                self._log.debug("no metadata of topic {topic}: {error!r}", topic=entry.feed.topic, error=error)
            except ClientClosed:
                return
            else:
                break
        entry.held_up = False
        self.wake()

    async def _out_of_range(self, entry: _Entry, want: Wanted, part: FetchedPart) -> None:
        """Before the settings decide where to go on: is it the same topic still?"""
        feed = entry.feed
        if self._cluster.settings.discover:
            try:
                view = await self._cluster.read(feed.topic)
            except ClientClosed:
                return
            except (BrokerUnavailable, WireError) as error:
                feed.answered(want)
                entry.held_up = False
                self._trouble(entry, error)
                return
            if feed.uuid != view.uuid:
                feed.answered(want)
                entry.held_up = False
                self.wake()
                return
        feed.out_of_range(want, part.log_start, part.visible_end)
        entry.held_up = False
        entry.arrived(feed)  # with its error, or a batch that tells of the jump
        self.wake()

    async def _go_over(self, entry: _Entry, view: TopicView) -> None:
        """Go on in another topic of the same name: the former one was deleted."""
        feed = entry.feed
        generation = feed.generation
        try:
            log = await describe_log(self._cluster, feed.topic, feed.partition)
        except ClientClosed:
            return
        except (BrokerUnavailable, WireError) as error:
            entry.held_up = False
            self._trouble(entry, error)
            return
        if log.uuid != view.uuid:  # one of the brokers is behind the other
            await self._recover(entry)
            return
        if feed.generation == generation:
            feed.made_again(log.uuid, log.log_start, log.visible_end)
            entry.arrived(feed)
        else:
            feed.uuid = log.uuid  # the application has said meanwhile where to go on
        entry.held_up = False
        self.wake()

    async def _locate(self, entry: _Entry) -> None:
        """Find the position that a start means, or where the log goes on behind damage."""
        feed = entry.feed
        generation = feed.generation
        try:
            if feed.lost_at is not None:
                found = await next_boundary(self._cluster, feed.topic, feed.partition, feed.lost_at)
                if feed.generation == generation:
                    feed.found(found)
                    entry.arrived(feed)
            elif feed.start is not None:
                uuid = feed.uuid if feed.fixed else None
                position = await locate_start(self._cluster, feed.topic, feed.partition, feed.start, uuid)
                if feed.generation == generation:
                    feed.seek(position)
        except ClientClosed:
            return
        except (BrokerUnavailable, WireError) as error:
            entry.held_up = False
            self._trouble(entry, error)
        else:
            entry.held_up = False
            self.wake()

    def _bug(self, failure: Failure) -> None:
        self._log.failure("a bug in fetching", failure)
