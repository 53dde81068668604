"""The state of a consumer: connections, fetches and streams, until ``close`` or until the consumer is dropped."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.client.audit.consumer_audit import consumer_audit
from logd.client.cluster.cluster import Cluster
from logd.client.consumer.dropped import DroppedStreams
from logd.client.consumer.fetching.fetcher import Fetcher
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.consumer.group.group_stream_state import GroupStreamState
from logd.client.consumer.group.reader import Group
from logd.client.consumer.stream_state import StreamState
from logd.client.dead_letters.writer import DeadLetters
from logd.client.settings import ConsumerSettings
from logd.client.starting_positions import Starts, start_for
from logd.clientcore.answers import is_final
from logd.coord.interfaces import ICoordination
from logd.deferreds.background import Background
from logd.deferreds.sleeping import sleep
from logd.deferreds.waiting import OneTimeEvent
from logd.errors import BrokerUnavailable, ClientClosed, WireError


class ConsumerState:
    """The connections, fetches and streams of a Consumer. Nothing here refers to the consumer or its MessageStreams."""

    _log = Logger()

    def __init__(self, cluster: Cluster, settings: ConsumerSettings, group: str, time_ms: Callable[[], int]) -> None:
        self.cluster = cluster
        self.settings = settings
        self._group_name = group
        self._time_ms = time_ms
        self._dead_letters: dict[str, DeadLetters] = {}
        damage = self.dead_letters(settings.dead_letters) if settings.on_corrupt == "dead-letter" else None
        self.fetcher = Fetcher(cluster, settings, damage)
        self.fetcher.audit = consumer_audit(cluster, settings, group, time_ms)
        #: None without a group.
        self.group: Group | None = None
        #: A client of the tree that belongs to this consumer, or None.
        self.coordination: ICoordination | None = None
        self.closed = False
        #: Happens at the end of the close, which goes on without its callers.
        self._ended = OneTimeEvent()
        self._background = Background("a consumer")
        self._streams: list[StreamState] = []
        self._dropped = DroppedStreams()

    def open(self, topic: str, n: int, partitions: Sequence[int] | None, starts: Starts) -> list[StreamState]:
        """Return ``n`` streams over some partitions of a topic (None: over all, read from the brokers)."""
        streams = [StreamState(topic, self.cluster.clock, self.fetcher, self.settings) for _ in range(n)]
        self._streams += streams
        if partitions is not None:
            self._share_out(topic, streams, sorted(set(partitions)), starts)
        else:
            self._background.start(self._discover(topic, streams, starts))
        return streams

    def open_in_group(self, group: Group, topic: str | re.Pattern[str], n: int) -> list[GroupStreamState]:
        """Return ``n`` streams over the group's share. Raises what Group.open raises."""
        streams = group.open(topic, n)
        self._streams += streams
        return streams

    def dead_letters(self, topic: str) -> DeadLetters:
        """Return the writer of a dead-letter topic. Raises InvalidTopic."""
        found = self._dead_letters.get(topic)
        if found is None:
            timeout = self.settings.dead_letter_timeout
            found = DeadLetters(self.cluster, topic, self._group_name, timeout, self._time_ms)
            self._dead_letters[topic] = found
        return found

    def dropped(self, stream: StreamState) -> None:
        """End a stream that the application has dropped, with a warning unless it was closed."""
        if stream.closed or self.closed:
            return
        self._dropped.warn(stream.topic, None if self.group is None else self.group.name)
        self.end(stream)

    def end(self, stream: StreamState) -> None:
        """End a stream that has no reader any more."""
        self._streams.remove(stream)
        if self.group is not None and isinstance(stream, GroupStreamState):
            self.group.end(stream)
        else:
            stream.close()

    def abandon(self) -> None:
        """End a consumer that the application has dropped with all its streams."""
        if not self.closed:
            for stream in tuple(self._streams):  # also told one by one, before or after this: a collection has no order
                self.dropped(stream)
            self.close()

    def close(self) -> Deferred[None]:
        """End all streams and disconnect; see Consumer. To cancel a wait for it does not cut it short."""
        if not self.closed:
            self.closed = True
            self._close().addErrback(self._not_closed).addCallback(lambda _: self._ended.happen())
        return self._ended.wait()

    def _not_closed(self, failure: Failure) -> None:
        self._log.failure("a consumer did not close all that it had opened", failure)

    def _close(self) -> Deferred[None]:
        if self.group is not None:  # to disconnect now would cut the leaving short
            return self.group.close().addCallback(lambda _: self._disconnect())
        self.fetcher.close()  # first: it has nothing to tell brokers of each partition that a stream gives back
        for stream in self._streams:
            stream.close()
        return self._disconnect()

    def _disconnect(self) -> Deferred[None]:
        self.fetcher.close()
        self._background.stop()
        audit, self.fetcher.audit = self.fetcher.audit, None
        if audit is None:
            return self._hang_up()
        return Deferred.fromCoroutine(audit.finish()).addCallback(lambda _: self._hang_up())

    def _hang_up(self) -> Deferred[None]:
        closing = self.cluster.close()
        tree = self.coordination
        return closing if tree is None else closing.addCallback(lambda _: tree.close())

    def _share_out(self, topic: str, streams: list[StreamState], partitions: Sequence[int], starts: Starts) -> None:
        """Give each stream consecutive partitions, the first streams one more (the paper's Algorithm 1)."""
        each, more = divmod(len(partitions), len(streams))
        at = 0
        for index, stream in enumerate(streams):
            count = each + (index < more)
            stream.assign(
                [PartitionFetch(topic, p, start_for(starts, p), self.settings) for p in partitions[at : at + count]],
            )
            at += count

    async def _discover(self, topic: str, streams: list[StreamState], starts: Starts) -> None:
        backoff = self.cluster.backoff()
        while not all(stream.closed for stream in streams):
            try:
                view = await self.cluster.read(topic)
            except ClientClosed:
                return
            except (BrokerUnavailable, WireError) as error:
                if is_final(error):
                    for stream in streams:
                        stream.fail(error)
                    return
                delay = backoff.next()
                self._log.debug("waiting for topic {topic}: {error!r}", topic=topic, error=error, delay=delay)
                await sleep(self.cluster.clock, delay)
            else:
                self._share_out(topic, streams, view.partitions, starts)
                return
