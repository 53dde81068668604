"""Administration: topics listed, described, made and deleted; the inside of a partition's log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from logd.client.admin.repair import repair_log
from logd.client.cluster.cluster import Cluster
from logd.client.cluster.describe_log import describe_log, describe_logs
from logd.client.cluster.link import Connect
from logd.client.setting_names import read_settings
from logd.client.settings import LinkSettings
from logd.clientcore.metadata import described
from logd.errors import error_for_code
from logd.protocol.requests.administration import CreateTopic, DeleteTopic
from logd.protocol.requests.describe_log import DescribeLogResponse
from logd.protocol.requests.metadata import MetadataResponse, TopicMetadata
from logd.protocol.requests.repair import RepairResponse
from logd.topic import check_topic_name

T = TypeVar("T")


class Admin:
    """Asks and changes what a cluster has. Every call tries once and returns a cancellable Deferred.

    Each fails with BrokerUnavailable when no broker can be reached or the answer does not come within
    ``request_timeout``, and with ClientClosed after ``close``.
    """

    def __init__(
        self,
        brokers: str | Sequence[str | tuple[str, int]] = "127.0.0.1:6667",
        *,
        reactor: Any = None,
        connect: Connect | None = None,
        random: Callable[[], float] | None = None,
        **settings: Any,
    ) -> None:
        """Settings are those of LinkSettings, by name. Raises ConfigurationError for one that is not allowed."""
        if reactor is None:
            from twisted.internet import reactor  # installed by the import, so not before it is needed
        links = read_settings(settings, LinkSettings)[0]
        more = {} if random is None else {"random": random}
        self._cluster = Cluster(reactor, brokers, links, connect=connect, **more)

    def topics(self) -> Deferred[list[str]]:
        """The names of all topics, sorted."""
        return self.metadata().addCallback(lambda response: sorted(each.topic for each in response.topics))

    def metadata(self, topics: Sequence[str] | None = None) -> Deferred[MetadataResponse]:
        """Brokers, and topics (all of them by default) with their partitions; a topic's error is in its entry."""
        return self._run(self._cluster.metadata(None if topics is None else tuple(topics)))

    def describe(self, topic: str) -> Deferred[TopicMetadata]:
        """One topic: uuid, partitions, leaders, replicas. Fails with UnknownTopic."""
        return self._run(self._describe(topic))

    def create(self, topic: str, partitions: int = 1, settings: Mapping[str, int] | None = None) -> Deferred[str]:
        """Make a topic; fires with its uuid. ``settings`` override the broker's, by names such as ``retention.ms``.

        Fails with TopicExists, or InvalidTopic for a name, number of partitions or setting that is not allowed.
        """
        return self._run(self._create(topic, partitions, dict(settings or {})))

    def delete(self, topic: str) -> Deferred[None]:
        """Remove a topic and everything in it. Fails with UnknownTopic."""
        return self._run(self._delete(topic))

    def describe_log(
        self, topic: str, partition: int, positions: Sequence[int] = (), time: int = -1
    ) -> Deferred[DescribeLogResponse]:
        """One partition's ends, segments, and the entry boundaries at or before ``positions`` (byte offsets).

        ``time`` (ms since the epoch, -1: not asked) is answered by ``time_position``, the first position that may hold
        something as new. Fails with UnknownTopic or WrongPartition.
        """
        return self._run(describe_log(self._cluster, topic, partition, tuple(positions), time))

    def describe_logs(
        self, topic: str, partitions: Sequence[int], time: int = -1
    ) -> Deferred[dict[int, DescribeLogResponse]]:
        """The same of several partitions, some at a time. Fails as ``describe_log`` does for the first that fails."""
        return self._run(describe_logs(self._cluster, topic, partitions, time))

    def repair_log(
        self, topic: str, partition: int, dry_run: bool = True, cut: bool = False, accept_at: int | None = None
    ) -> AsyncIterator[RepairResponse]:
        """Have the broker look at a partition's log for damage and, but for a ``dry_run``, mend it while it serves.

        Yields an answer for each segment. ``cut``: of a partition that is offline, also cut what nothing vouches for.
        ``accept_at``: begin a lost log again at this position, the end that a dry run has answered; its messages are
        given up. Raises as ``describe_log`` fails.
        """
        return repair_log(self._cluster, topic, partition, dry_run, cut, accept_at)

    def close(self) -> Deferred[None]:
        """Disconnect; fires when that is done. Never fails."""
        return self._cluster.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> Deferred[T]:
        return Deferred.fromCoroutine(work)

    async def _describe(self, topic: str) -> TopicMetadata:
        check_topic_name(topic)
        return described(await self._cluster.metadata((topic,)), topic)

    async def _create(self, topic: str, partitions: int, settings: dict[str, int]) -> str:
        check_topic_name(topic)
        response = await self._cluster.ask_any(CreateTopic(topic, partitions, settings))
        if response.error:
            raise error_for_code(response.error, response.text)
        uuid: str = response.uuid
        return uuid

    async def _delete(self, topic: str) -> None:
        check_topic_name(topic)
        response = await self._cluster.ask_any(DeleteTopic(topic))
        self._cluster.forget(topic)
        if response.error:
            raise error_for_code(response.error, response.text)
