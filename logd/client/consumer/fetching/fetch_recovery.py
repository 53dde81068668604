"""Recovery of partitions that cannot simply be fetched: searches for their positions, or for their leaders.

A partition that is held up here is not fetched; ``look_at(entry)`` is called when it may be again.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Coroutine
from typing import Any

from twisted.logger import Logger

from logd.client.cluster.cluster import Cluster
from logd.client.cluster.describe_log import describe_log
from logd.client.cluster.partition_outages import UnavailablePartitions
from logd.client.cluster.position_lookup import locate_start, next_boundary
from logd.client.consumer.fetching.fetch_plan import FetchEntry
from logd.client.consumer.fetching.fetch_window import Wanted
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.clientcore.answers import is_final
from logd.clientcore.metadata import TopicView
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.errors import BrokerUnavailable, ClientClosed, WireError
from logd.protocol.requests.fetch_wait import FetchedPart
from logd.topic import TopicPartition


class FetchRecovery:
    """The recoveries of one consumer's partitions, each on its own; those of partitions not ``watched`` end."""

    _log = Logger()

    def __init__(
        self, cluster: Cluster, watched: Container[PartitionFetch], look_at: Callable[[FetchEntry], None]
    ) -> None:
        self._cluster = cluster
        self._watched = watched
        self._look_at = look_at
        self._background = Background("fetching")
        self._unavailable = UnavailablePartitions(cluster.clock)

    def stop(self) -> None:
        """Recover nothing more."""
        self._background.stop()
        self._unavailable.close()

    def forget(self, feed: PartitionFetch) -> None:
        """Say nothing more of a partition that is not watched any more."""
        self._unavailable.forget(TopicPartition(feed.topic, feed.partition))

    def served(self, feed: PartitionFetch) -> None:
        """Note that a partition was read, should that not have been possible before."""
        if self._unavailable:
            self._unavailable.over(TopicPartition(feed.topic, feed.partition))

    def locate(self, entry: FetchEntry) -> None:
        """Find the position that a start means, or where the log goes on behind damage."""
        if self.is_of_its_topic(entry):
            self._begin(entry, self._locate(entry))

    def out_of_range(self, entry: FetchEntry, want: Wanted, part: FetchedPart) -> None:
        """Find out why the position that was asked for is not in the log."""
        if entry.held_up:
            entry.feed.answered(want)
        else:
            self._begin(entry, self._out_of_range(entry, want, part))

    def is_of_its_topic(self, entry: FetchEntry) -> bool:
        """Return whether the feed's position is of the topic that has its name now; if not, begin a recovery."""
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

    def failed(self, entry: FetchEntry, error: BaseException | None) -> None:
        """Deal with a failed fetch: read metadata again after a while, unless trying again is no use."""
        if entry.held_up or entry.feed not in self._watched:
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
        since = self._cluster.clock.seconds()
        while entry.feed in self._watched:
            if not at_once:
                await sleep(self._cluster.clock, entry.backoff.next())
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
                self.failed(entry, error)
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
            self.failed(entry, error)
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
            self.failed(entry, error)
        else:
            entry.held_up = False
            self._look_at(entry)
