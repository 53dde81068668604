"""The consumer: opens streams over partitions, and fetches ahead for all of them within one bound of memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.client.background import Background
from logd.client.backoff import Backoff
from logd.client.cluster import Cluster
from logd.client.feed import Feed
from logd.client.fetcher import Fetcher
from logd.client.link import Connect
from logd.client.settings import ConsumerSettings, LinkSettings
from logd.client.split import read_settings
from logd.client.starts import Starts, start_for
from logd.client.stream import MessageStream
from logd.errors import BrokerUnavailable, ClientClosed, WireError
from logd.topic import check_topic_name


class Consumer:
    """Reads given partitions of topics of one cluster. Use it on the reactor's thread (``logd.client.blocking``
    otherwise).

    Settings are those of ConsumerSettings and LinkSettings, by name: ``Consumer("host:6667", prefetch_bytes=1 << 20)``.
    """

    _log = Logger()

    def __init__(
        self,
        brokers: str | Sequence[str | tuple[str, int]] = "127.0.0.1:6667",
        *,
        start: Starts = "earliest",
        reactor: Any = None,
        connect: Connect | None = None,
        random: Callable[[], float] | None = None,
        **settings: Any,
    ) -> None:
        """``brokers``: where to begin (see addresses.parse_brokers). Nothing is connected before a stream is opened.

        ``start``: where streams begin unless they say otherwise: "earliest", "latest", a position, ``Position`` or
        ``Time``; or a mapping from partitions to these. ``connect`` and ``random`` are seams for tests. Raises
        ConfigurationError for a setting that is unknown or not allowed.
        """
        if reactor is None:
            from twisted.internet import reactor  # installed by the import, so not before it is needed
        mine, links = read_settings(settings, ConsumerSettings, LinkSettings)
        start_for(start, 0)
        self.settings: ConsumerSettings = mine
        self._start = start
        self._clock = reactor
        more = {} if random is None else {"random": random}
        self._cluster = Cluster(reactor, brokers, links, connect=connect, **more)
        self._fetcher = Fetcher(self._cluster, mine)
        self._background = Background(reactor)
        self._streams: list[MessageStream] = []
        self._closed = False

    def create_message_streams(
        self, topic: str, n: int, partitions: Sequence[int] | None = None, start: Starts | None = None
    ) -> list[MessageStream]:
        """Return ``n`` endless streams among which the topic's partitions are shared out (paper section 3.1).

        ``partitions``: these alone; all of them by default, found out in the background. A topic that does not exist is
        waited for. With more streams than partitions some stay empty. Raises InvalidTopic for a name that no topic can
        have, ConfigurationError for a bad ``start``, ValueError for ``n`` below 1 and ClientClosed after ``close``.
        """
        check_topic_name(topic)
        if n < 1:
            raise ValueError(f"n = {n} is not allowed; allowed is a whole number from 1")
        if self._closed:
            raise ClientClosed("the consumer is closed")
        starts = self._start if start is None else start
        start_for(starts, 0)
        streams = [MessageStream(topic, self._clock, self._fetcher, self.settings) for _ in range(n)]
        self._streams += streams
        if partitions is not None:
            self._share_out(topic, streams, sorted(set(partitions)), starts)
        else:
            self._background.start(self._discover(topic, streams, starts))
        return streams

    def close(self) -> Deferred[None]:
        """End all streams and disconnect; fires when that is done. Never fails."""
        self._closed = True
        for stream in self._streams:
            stream.close()
        self._fetcher.close()
        self._background.close()
        return self._cluster.close()

    def _share_out(self, topic: str, streams: list[MessageStream], partitions: Sequence[int], starts: Starts) -> None:
        """Give each stream consecutive partitions, the first ones one more (the paper's Algorithm 1)."""
        each, more = divmod(len(partitions), len(streams))
        at = 0
        for index, stream in enumerate(streams):
            count = each + (index < more)
            stream.assign(
                [Feed(topic, p, start_for(starts, p), self.settings) for p in partitions[at : at + count]],
            )
            at += count

    async def _discover(self, topic: str, streams: list[MessageStream], starts: Starts) -> None:
        links = self._cluster.settings
        backoff = Backoff(links.retry_delay, links.retry_delay_limit, self._cluster.random)
        while not self._closed:
            try:
                view = await self._cluster.read(topic)
            except ClientClosed:
                return
            except (BrokerUnavailable, WireError) as error:
                if isinstance(error, WireError) and not error.retriable:
                    for stream in streams:
                        stream.fail(error)
                    return
                delay = backoff.next()
                self._log.debug("waiting for topic {topic}: {error!r}", topic=topic, error=error, delay=delay)
                await self._background.sleep(delay)
            else:
                self._share_out(topic, streams, view.partitions, starts)
                return
