"""Recovery of partitions that cannot simply be fetched: searches for their positions or their leaders.

A partition that is held up here is not fetched; ``look_at(entry)`` is called when fetching may go on.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Coroutine
from typing import Any

from twisted.logger import Logger

from logd.client.cluster.cluster import Cluster
from logd.client.cluster.describe_log import describe_log
from logd.client.cluster.link import BrokerLink
from logd.client.cluster.partition_outages import UnavailablePartitions
from logd.client.cluster.position_lookup import locate_start, next_boundary
from logd.client.consumer.fetching.fetch_plan import FetchEntry
from logd.client.consumer.fetching.fetch_window import Wanted
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.dead_letters.letter import MOST_RANGE_BYTES
from logd.client.dead_letters.writer import DeadLetters
from logd.clientcore.answers import is_final
from logd.clientcore.metadata import TopicView
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.errors import AuthenticationFailed, BrokerUnavailable, ClientClosed, DeadLetterFailed, WireError
from logd.protocol.requests.fetch_session import SessionPart
from logd.protocol.requests.fetch_wait import FetchedPart
from logd.topic import TopicPartition


class FetchRecovery:
    """The recoveries of one consumer's partitions, one for each. Recoveries of partitions not ``watched`` end."""

    _log = Logger()

    def __init__(
        self,
        cluster: Cluster,
        watched: Container[PartitionFetch],
        look_at: Callable[[FetchEntry], None],
        dead_letters: DeadLetters | None,
    ) -> None:
        """``dead_letters``: where damaged bytes are stored before reading goes on behind them; None to drop them."""
        self._cluster = cluster
        self._watched = watched
        self._look_at = look_at
        self._dead_letters = dead_letters
        self._background = Background("fetching")
        self._unavailable = UnavailablePartitions(cluster.clock)

    def stop(self) -> None:
        """Stop all recoveries."""
        self._background.stop()
        self._unavailable.close()

    def forget(self, fetch: PartitionFetch) -> None:
        """Report nothing more about a partition that is no longer watched."""
        self._unavailable.forget(TopicPartition(fetch.topic, fetch.partition))

    def served(self, fetch: PartitionFetch) -> None:
        """Note that a partition was read, which ends its outage if there was one."""
        if self._unavailable:
            self._unavailable.over(TopicPartition(fetch.topic, fetch.partition))

    def locate(self, entry: FetchEntry) -> None:
        """Find the position that a start means, or the one at which the log continues behind damage."""
        if self.is_of_its_topic(entry):
            self._begin(entry, self._locate(entry))

    def out_of_range(self, entry: FetchEntry, want: Wanted, part: FetchedPart | SessionPart, link: BrokerLink) -> None:
        """Find out why the requested position is not in the log, by the answer of the broker of ``link``."""
        if entry.fetch.begins_elsewhere(want, part.log_start):
            entry.arrived((entry.fetch,))  # it may be the position that the reader waits for
            self._look_at(entry)
        elif entry.held_up:
            entry.fetch.answered(want)
        else:
            self._begin(entry, self._out_of_range(entry, want, part, link))

    def is_of_its_topic(self, entry: FetchEntry) -> bool:
        """Return whether the position belongs to the topic that now has the name; if not, begin a recovery."""
        fetch, cluster = entry.fetch, self._cluster
        if not cluster.settings.discover:
            return True
        view = cluster.known(fetch.topic)
        if view is None and fetch.start is not None and not fetch.identity.fixed:
            return True  # locating the start reads the metadata
        if view is None or fetch.identity.doubted:
            fetch.identity.doubted = False
            self._begin(entry, self._recover(entry, at_once=True))
            return False
        if cluster.clock.seconds() - view.read_at > cluster.settings.metadata_age:
            cluster.refresh(fetch.topic)
        if not fetch.identity.matches(view.uuid):
            self._begin(entry, self._recover(entry) if fetch.identity.fixed else self._go_over(entry, view))
            return False
        return True

    def failed(self, entry: FetchEntry, error: BaseException | None) -> None:
        """Handle a failed fetch: read metadata again after a while, unless trying again is no use."""
        if entry.held_up or entry.fetch not in self._watched:
            return
        fetch = entry.fetch
        if is_final(error):
            fetch.error = error
            entry.arrived((fetch,))
            return
        self._log.debug(
            "topic {topic}, partition {partition}: fetching again after {error!r}",
            topic=fetch.topic, partition=fetch.partition, error=error,
        )  # fmt: skip
        if isinstance(error, WireError):
            self._unavailable.noticed(TopicPartition(fetch.topic, fetch.partition), str(error))
        self._begin(entry, self._recover(entry))

    def _begin(self, entry: FetchEntry, work: Coroutine[Any, Any, None]) -> None:
        entry.held_up = True
        self._background.start(work)

    async def _recover(self, entry: FetchEntry, at_once: bool = False) -> None:
        """Read the topic's metadata again, or wait until another caller has. Waits first, unless ``at_once``."""
        topic = entry.fetch.topic
        since = self._cluster.clock.seconds()
        while entry.fetch in self._watched:
            if not at_once:
                await sleep(self._cluster.clock, entry.backoff.next())
                view = self._cluster.known(topic)
                if view is not None and view.read_at > since:
                    break
            at_once = False
            try:
                if self._cluster.settings.discover:
                    await self._cluster.read(topic)
            except AuthenticationFailed as error:  # the user was removed, or has another password
                entry.held_up = False
                self.failed(entry, error)
                return
            except (BrokerUnavailable, WireError) as error:
                self._log.debug("no metadata of topic {topic}: {error!r}", topic=topic, error=error)
            except ClientClosed:
                return
            else:
                break
        entry.held_up = False
        self._look_at(entry)

    async def _out_of_range(
        self, entry: FetchEntry, want: Wanted, part: FetchedPart | SessionPart, link: BrokerLink
    ) -> None:
        """Check that topic and leader are still the same before the settings decide where to continue.

        A broker that stood still does not know yet that another one leads, which has more than its log. So another one
        is asked who leads.
        """
        fetch, asked = entry.fetch, entry.view if entry.link is link else None
        if self._cluster.settings.discover:
            try:
                view = await self._cluster.read_beside(fetch.topic, link)
            except ClientClosed:
                return
            except (BrokerUnavailable, WireError) as error:
                fetch.answered(want)
                entry.held_up = False
                self.failed(entry, error)
                return
            if fetch.identity.uuid != view.uuid or asked is None or view.is_later(asked, fetch.partition):
                fetch.answered(want)
                entry.held_up = False
                self._look_at(entry)
                return
        fetch.out_of_range(want, part.log_start, part.visible_end)
        entry.held_up = False
        entry.arrived((fetch,))  # with its error, or with a batch that reports the jump
        self._look_at(entry)

    async def _go_over(self, entry: FetchEntry, view: TopicView) -> None:
        """Continue in another topic of the same name: the former one was deleted."""
        fetch = entry.fetch
        generation = fetch.generation
        try:
            log = await describe_log(self._cluster, fetch.topic, fetch.partition)
        except ClientClosed:
            return
        except (BrokerUnavailable, WireError) as error:
            entry.held_up = False
            self.failed(entry, error)
            return
        if log.uuid != view.uuid:  # one of the two brokers is out of date
            await self._recover(entry)
            return
        if fetch.generation == generation:
            fetch.made_again(log.uuid, log.log_start, log.visible_end)
            entry.arrived((fetch,))
        else:
            fetch.identity.uuid = log.uuid  # meanwhile the application has said where to continue
        entry.held_up = False
        self._look_at(entry)

    async def _locate(self, entry: FetchEntry) -> None:
        """Find the position that a start means, or the one at which the log continues behind damage.

        Damaged bytes are stored as a dead letter first, if the settings say so: until then the position stays before
        them, so that nothing behind them is committed.
        """
        fetch = entry.fetch
        generation = fetch.generation
        try:
            damage = fetch.damage
            if damage is not None:
                found: int | None = damage.end
                if damage.end < 0:
                    found = await next_boundary(self._cluster, fetch.topic, fetch.partition, damage.position)
                if found is None:
                    if fetch.generation == generation:
                        fetch.seek(fetch.position)  # the answer to this fetch says what has become of the log
                elif self._dead_letters is not None and fetch.generation == generation:
                    data = fetch.damaged_bytes(min(found - damage.position, MOST_RANGE_BYTES))
                    await self._dead_letters.add_range(
                        fetch.topic, fetch.partition, damage.position, found, data, damage.reason
                    )
                if found is not None and fetch.generation == generation:
                    fetch.found(found)
                    entry.arrived((fetch,))
            elif fetch.start is not None:
                uuid = fetch.identity.uuid if fetch.identity.fixed else None
                position = await locate_start(self._cluster, fetch.topic, fetch.partition, fetch.start, uuid)
                if fetch.generation == generation:
                    fetch.seek(position)
                    entry.arrived((fetch,))  # it may be the position that the reader waits for
        except ClientClosed:
            return
        except DeadLetterFailed as error:
            if fetch.generation == generation:
                fetch.error = error
                entry.arrived((fetch,))
            entry.held_up = False
            self._look_at(entry)
        except (BrokerUnavailable, WireError) as error:
            entry.held_up = False
            self.failed(entry, error)
        else:
            entry.held_up = False
            self._look_at(entry)
