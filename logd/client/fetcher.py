"""Keeps feeds filled: which partitions are asked for together, of which broker, and what happens when that fails."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.client.cluster import Cluster
from logd.client.describe import describe_log, describe_logs
from logd.client.feed import Feed
from logd.client.fetchplan import FetchEntry, FetchPlan, longest_wait
from logd.client.fetchwindow import Wanted
from logd.client.link import BrokerLink, ClientConnection
from logd.client.locate import locate_start, next_boundary
from logd.client.settings import ConsumerSettings
from logd.client.unavailable import UnavailablePartitions
from logd.clientcore.answers import is_final
from logd.clientcore.metadata import TopicView
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.errors import BrokerUnavailable, ClientClosed, OffsetOutOfRange, WireError, error_for_code
from logd.interfaces import Timer
from logd.protocol.fetch_wait import FetchedPart, FetchPart, FetchWait, FetchWaitResponse
from logd.topic import TopicPartition

#: Room in an answer's frame for what is around the sets.
FRAME_MARGIN = 64 << 10
#: Bytes that are held for a partition at least, however many there are.
LEAST_SHARE = 256


class Fetcher:
    """One consumer's fetches. Whatever may want something anew is looked at, and nothing else."""

    _log = Logger()

    def __init__(self, cluster: Cluster, settings: ConsumerSettings) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._settings = settings
        self._entries: dict[Feed, FetchEntry] = {}
        #: Entries to look at in this turn of the reactor: something has changed for them.
        self._changed: dict[FetchEntry, None] = {}
        self._plans: dict[BrokerLink, FetchPlan] = {}
        #: Calls at the time from which idle entries may be asked for.
        self._timers: dict[BrokerLink, Timer] = {}
        self._background = Background("fetching")
        self._unavailable = UnavailablePartitions(cluster.clock)
        self._scheduled = False
        self._connecting: set[BrokerLink] = set()
        self._closed = False

    @property
    def share(self) -> int:
        """Bytes that may be held for one partition: its part of the whole, but enough to see an entry's length."""
        return max(LEAST_SHARE, self._settings.prefetch_bytes // max(1, len(self._entries)))

    def add(self, feed: Feed, arrived: Callable[[Feed], None]) -> None:
        """Fill this feed; ``arrived(feed)`` is called when there is something to take or its ``error`` is set."""
        backoff = self._cluster.backoff()
        self._entries[feed] = entry = FetchEntry(feed, arrived, backoff)
        self._look_at(entry)

    def remove(self, feed: Feed) -> None:
        """Stop filling this feed."""
        entry = self._entries.pop(feed, None)
        if entry is not None:
            self._unavailable.forget(TopicPartition(feed.topic, feed.partition))
            self._changed.pop(entry, None)
            if entry.plan is not None:
                entry.plan.discard(entry)

    def wake(self, feed: Feed) -> None:
        """Look at this feed at the end of this turn of the reactor: it may want something."""
        entry = self._entries.get(feed)
        if entry is not None:
            self._look_at(entry)

    async def visible_ends(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """Where the visible logs of partitions end now. Raises what describe_log raises."""
        logs = await describe_logs(self._cluster, topic, partitions)
        return {partition: log.visible_end for partition, log in logs.items()}

    def close(self) -> None:
        """Ask for nothing more."""
        self._closed = True
        self._background.stop()
        self._unavailable.close()
        self._entries.clear()
        self._changed.clear()
        self._plans.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _look_at(self, entry: FetchEntry) -> None:
        self._changed[entry] = None
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._clock.callLater(0, self._woken)

    def _woken(self) -> None:
        self._scheduled = False
        self._issue()

    def _issue(self, *answered: BrokerLink) -> None:
        """Look at what has changed, and send requests to the brokers that lead it, and to those that ``answered``."""
        if self._closed:
            return
        changed, self._changed = self._changed, {}
        links = dict.fromkeys(answered)
        for entry in changed:
            link = self._planned(entry)
            if link is not None:
                links[link] = None
        for link in links:
            self._send_planned(link)

    def _planned(self, entry: FetchEntry) -> BrokerLink | None:
        """Put an entry that wants something in line for its partition's leader; return that."""
        feed = entry.feed
        if feed not in self._entries or entry.held_up or feed.error is not None:
            return None
        if feed.start is not None or feed.lost_at is not None:
            if self._is_of_its_topic(entry):
                self._begin(entry, self._locate(entry))
            return None
        if feed.wanted(self.share) is None or not self._is_of_its_topic(entry):
            return None
        try:
            link = self._cluster.leader(feed.topic, feed.partition)
        except WireError as error:
            self._trouble(entry, error)
            return None
        plan = self._plans.get(link)
        if plan is None:
            plan = self._plans[link] = FetchPlan()
        plan.add(entry)
        return link

    def _send_planned(self, link: BrokerLink) -> None:
        """Send what the line of a broker lets go now, and see to it that the rest is sent in time."""
        plan = self._plans.get(link)
        if plan is None:
            return
        if link.current is None:
            if plan.has_any and link not in self._connecting:
                self._connecting.add(link)
                link.get().addCallbacks(self._connected, self._unreachable, callbackArgs=(link,), errbackArgs=(link,))
            return
        now = self._clock.seconds()
        share = self.share
        for entries in plan.take(now, len(self._entries)):
            wants = [(entry, want) for entry in entries if (want := entry.feed.wanted(share)) is not None]
            if wants:
                self._send(link, link.current, plan, wants)
        if plan.waits_for_time and link not in self._timers:
            self._timers[link] = self._clock.callLater(max(0.0, plan.idle_from - now), self._due, link)

    def _due(self, link: BrokerLink) -> None:
        del self._timers[link]
        self._send_planned(link)

    def _is_of_its_topic(self, entry: FetchEntry) -> bool:
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

    def _send(
        self, link: BrokerLink, connection: ClientConnection, plan: FetchPlan, wants: list[tuple[FetchEntry, Wanted]]
    ) -> None:
        parts = []
        total = 0
        for entry, want in wants:
            feed = entry.feed
            feed.asked(want)
            total += want.max_bytes
            parts.append(FetchPart(feed.topic, feed.partition, 0, want.offset, want.max_bytes, want.exact))
        most = min(total, self._cluster.settings.frame_bytes - FRAME_MARGIN - 256 * len(parts))
        wait = longest_wait(self._settings.max_wait, len(self._entries))
        request = FetchWait(int(wait * 1000), 1, max(1, most), tuple(parts))
        plan.under_way += 1
        answer = link.ask(connection, request, wait + self._cluster.settings.request_timeout)
        answer.addCallbacks(
            self._answered, self._failed, callbackArgs=(connection, link, plan, wants), errbackArgs=(plan, wants)
        ).addErrback(self._bug)

    def _answered(
        self,
        response: FetchWaitResponse,
        connection: ClientConnection,
        link: BrokerLink,
        plan: FetchPlan,
        wants: list[tuple[FetchEntry, Wanted]],
    ) -> None:
        plan.under_way -= 1
        arrived = []
        changed = self._changed
        for (entry, want), part in zip(wants, response.parts, strict=True):
            feed = entry.feed
            if feed not in self._entries:
                continue
            if part.error == 0:
                entry.backoff.reset()
                if self._unavailable:
                    self._unavailable.over(TopicPartition(feed.topic, feed.partition))
                if feed.received(want, part.first_position, part.message_set, part.visible_end):
                    entry.idle = False
                    arrived.append(entry)
                else:  # those with nothing go before the others in the next request
                    entry.idle = part.visible_end <= want.offset
                    changed[entry] = None
            elif part.error == OffsetOutOfRange.code:
                if entry.held_up:
                    feed.answered(want)
                else:
                    self._begin(entry, self._out_of_range(entry, want, part))
            elif feed.answered(want):
                self._trouble(entry, error_for_code(part.error))
        for entry in arrived:
            changed[entry] = None
        self._issue(link)  # before anything is decoded: the broker works while we do
        for entry in arrived:
            entry.arrived(entry.feed)

    def _failed(self, failure: Failure, plan: FetchPlan, wants: list[tuple[FetchEntry, Wanted]]) -> None:
        plan.under_way -= 1
        for entry, want in wants:
            if entry.feed.answered(want):
                self._trouble(entry, failure.value)
        # Those in line behind a request that failed may have another leader by now, and no answer will come for them.
        for entry in plan.take_all():
            self._look_at(entry)

    def _connected(self, _: object, link: BrokerLink) -> None:
        self._connecting.discard(link)
        self._issue(link)

    def _unreachable(self, failure: Failure, link: BrokerLink) -> None:
        self._connecting.discard(link)
        plan = self._plans.get(link)
        if plan is not None and not failure.check(ClientClosed):
            for entry in plan.take_all():
                self._trouble(entry, failure.value)

    def _trouble(self, entry: FetchEntry, error: BaseException | None) -> None:
        """Something is wrong with a partition: read metadata again after a while, unless trying again is no use."""
        if entry.held_up or self._closed:
            return
        feed = entry.feed
        if is_final(error):
            feed.error = error
            entry.arrived(feed)
            return
        self._log.debug(
            "topic {topic}, partition {partition}: fetching again after {error!r}",
            topic=feed.topic, partition=feed.partition, error=error,
        )  # fmt: skip
        if isinstance(error, WireError):
            self._unavailable.noticed(TopicPartition(feed.topic, feed.partition), str(error))
        self._begin(entry, self._recover(entry))

    def _begin(self, entry: FetchEntry, work: Coroutine[Any, Any, None]) -> None:
        entry.held_up = True
        self._background.start(work)

    async def _recover(self, entry: FetchEntry, at_once: bool = False) -> None:
        """Read the topic's metadata again, after a while unless ``at_once``, or wait until others have."""
        topic = entry.feed.topic
        since = self._clock.seconds()
        while not self._closed and entry.feed in self._entries:
            if not at_once:
                await sleep(self._clock, entry.backoff.next())
                view = self._cluster.known(topic)
                if view is not None and view.read_at > since:
                    break
            at_once = False
            try:
                if self._cluster.settings.discover:
                    await self._cluster.read(topic)
            except (BrokerUnavailable, WireError) as error:
                self._log.debug("no metadata of topic {topic}: {error!r}", topic=topic, error=error)
            except ClientClosed:
                return
            else:
                break
        entry.held_up = False
        self._look_at(entry)

    async def _out_of_range(self, entry: FetchEntry, want: Wanted, part: FetchedPart) -> None:
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
                self._look_at(entry)
                return
        feed.out_of_range(want, part.log_start, part.visible_end)
        entry.held_up = False
        entry.arrived(feed)  # with its error, or a batch that tells of the jump
        self._look_at(entry)

    async def _go_over(self, entry: FetchEntry, view: TopicView) -> None:
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
        self._look_at(entry)

    async def _locate(self, entry: FetchEntry) -> None:
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
                    entry.arrived(feed)  # which may be where the reader wants to be
        except ClientClosed:
            return
        except (BrokerUnavailable, WireError) as error:
            entry.held_up = False
            self._trouble(entry, error)
        else:
            entry.held_up = False
            self._look_at(entry)

    def _bug(self, failure: Failure) -> None:
        self._log.failure("a bug in fetching", failure)
