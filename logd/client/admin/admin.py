"""Administration: lists, describes, creates, alters and deletes topics, and describes and repairs partitions' logs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from logd.client.admin import replicas as _replicas
from logd.client.admin.repair import repair_log
from logd.client.cluster.cluster import Cluster
from logd.client.cluster.describe_log import describe_log, describe_logs
from logd.client.cluster.link import Connect
from logd.client.setting_names import read_settings
from logd.client.settings import LinkSettings
from logd.clientcore.addresses import Address
from logd.clientcore.metadata import described
from logd.errors import error_for_code
from logd.protocol.requests.alter_topic import AlterTopic, AlterTopicResponse
from logd.protocol.requests.create_delete_topic import CreateTopic, CreateTopicV1, CreateTopicV2, DeleteTopic
from logd.protocol.requests.describe_log import DescribeLogResponse
from logd.protocol.requests.metadata import MetadataResponse, TopicMetadata
from logd.protocol.requests.repair import RepairResponse
from logd.protocol.requests.replicas.describe_replicas import DescribeReplicas, DescribeReplicasResponse
from logd.protocol.requests.replicas.operations import (
    ANY_LEADER,
    DrainBroker,
    ElectLeaders,
    ElectLeadersV1,
    Placed,
    Reassign,
    ReassignResponse,
)
from logd.topic import check_topic_name

T = TypeVar("T")


class Admin:
    """An administration client. Every call tries once and returns a cancellable Deferred.

    Each call fails with BrokerUnavailable when no broker can be reached or no answer comes within ``request_timeout``,
    and with ClientClosed after ``close``.
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
        """Read the settings, which are those of LinkSettings. Raises ConfigurationError for one that is not allowed."""
        if reactor is None:
            from twisted.internet import reactor  # its import installs a reactor, so not before one is needed
        links = read_settings(settings, LinkSettings)[0]
        more: dict[str, Any] = {} if random is None else {"random": random}
        self._cluster = Cluster(reactor, brokers, links, connect=connect, **more)

    def topics(self) -> Deferred[list[str]]:
        """Return the names of all topics, sorted."""
        return self.metadata().addCallback(lambda response: sorted(each.topic for each in response.topics))

    def metadata(self, topics: Sequence[str] | None = None) -> Deferred[MetadataResponse]:
        """Return brokers, and topics (by default all) with their partitions; a topic's error is in its entry."""
        return self._run(self._cluster.metadata(None if topics is None else tuple(topics)))

    def describe(self, topic: str) -> Deferred[TopicMetadata]:
        """Return a topic's uuid, partitions, leaders and replicas. Fails with UnknownTopic."""
        return self._run(self._describe(topic))

    def create(
        self, topic: str, partitions: int = 1, settings: Mapping[str, int | str] | None = None, replicas: int = 0
    ) -> Deferred[str]:
        """Create a topic; fires with its uuid. ``settings`` override the broker's, by names such as ``retention.ms``.

        ``replicas`` is the number of brokers that store each partition, 0 for the brokers' setting default.replicas.

        Fails with TopicExists, or InvalidTopic for a name, number of partitions or setting that is not allowed.
        """
        return self._run(self._create(topic, partitions, dict(settings or {}), replicas))

    def alter(
        self, topic: str, settings: Mapping[str, int | str | None] | None = None, partitions: int = 0, uuid: str = ""
    ) -> Deferred[AlterTopicResponse]:
        """Change settings of a topic, and let it have ``partitions`` in all; 0 leaves their number as it is.

        Settings that are not named stay; None removes the topic's own, so that the broker's holds. Fires with the
        topic's ``partitions`` and ``settings`` from now on. Messages with a key go to other partitions than before once
        a topic has more of them. ``uuid``, if it is given, is that of the topic that is meant.

        Fails with UnknownTopic, with InvalidTopic for a setting or number of partitions that is not allowed, and with
        UnsupportedVersion or BrokerUnavailable if the broker is of an earlier release, which cannot do it.
        """
        texts = {name: "" if value is None else str(value) for name, value in (settings or {}).items()}
        return self._run(self._alter(AlterTopic(topic, uuid, partitions, texts)))

    def delete(self, topic: str) -> Deferred[None]:
        """Delete a topic with all its messages. Fails with UnknownTopic."""
        return self._run(self._delete(topic))

    def describe_log(
        self, topic: str, partition: int, positions: Sequence[int] = (), time: int = -1
    ) -> Deferred[DescribeLogResponse]:
        """Return a partition's ends, segments, and the entry boundaries at or before ``positions`` (byte offsets).

        ``time`` (ms since the epoch, -1: none) is answered by ``time_position``, the first position that may hold a
        message as new as that. Fails with UnknownTopic or WrongPartition.
        """
        return self._run(describe_log(self._cluster, topic, partition, tuple(positions), time))

    def describe_logs(
        self, topic: str, partitions: Sequence[int], time: int = -1
    ) -> Deferred[dict[int, DescribeLogResponse]]:
        """Describe the logs of several partitions, some at a time. Fails with the first error, as ``describe_log``."""
        return self._run(describe_logs(self._cluster, topic, partitions, time))

    def repair_log(
        self, topic: str, partition: int, dry_run: bool = True, cut: bool = False, accept_at: int | None = None
    ) -> AsyncIterator[RepairResponse]:
        """Have the broker check a partition's log for damage and, unless ``dry_run``, mend it while it serves.

        Yields an answer for each segment. ``cut``: in an offline partition, also cut what no mark vouches for.
        ``accept_at``: begin a lost log again at this position, which a dry run has answered as its end; its messages
        are given up. Raises the errors that ``describe_log`` fails with.
        """
        return repair_log(self._cluster, topic, partition, dry_run, cut, accept_at)

    def reassign(
        self,
        topic: str,
        placed: Mapping[int, Sequence[int]] | None = None,
        *,
        brokers: Sequence[int] = (),
        replicas: int = 0,
        rate: int = 0,
        plan_only: bool = False,
        uuid: str = "",
    ) -> Deferred[ReassignResponse]:
        """Give partitions of a topic other replicas while they are used; fires with what changes, before it is done.

        ``placed`` has the brokers that are to store each partition, the preferred leader first. Without it the broker
        plans: ``replicas`` copies (0: as many as there are) spread over ``brokers`` (none: all live ones), with as few
        moves as possible. ``rate`` is the most bytes a second that each leader sends for it, 0 for the brokers' own
        setting. ``plan_only``: nothing is changed. Fails with UnknownTopic, with InvalidRequest for brokers that are
        not live, and with ClusterAuthorizationFailed.
        """
        wanted = tuple(Placed(number, tuple(each)) for number, each in sorted((placed or {}).items()))
        request = Reassign(topic, uuid, wanted, tuple(brokers), replicas, rate, plan_only)
        return self._run(_replicas.ask(self._cluster, request))

    def cancel_reassignment(self, topic: str) -> Deferred[ReassignResponse]:
        """End a reassignment: partitions that are not done get back the replicas that they had. Fires with those.

        Fails with UnknownTopic and ClusterAuthorizationFailed.
        """
        return self._run(_replicas.ask(self._cluster, Reassign(topic, cancel=True)))

    def elect(
        self, topic: str, partitions: Mapping[int, int] | None = None, *, unclean: bool = False, uuid: str = ""
    ) -> Deferred[None]:
        """Ask the controller to let preferred leaders lead ``partitions`` (none: all); fires before it has done so.

        ``unclean``: partitions without a leader get any live replica as leader, by preference the broker that stands at
        the partition (-1: any), and messages that it lacks are lost. Fails as ``reassign``.
        """
        request = ElectLeaders(topic, uuid, tuple(sorted((partitions or {}).items())), unclean)
        return self._run(_replicas.ask(self._cluster, request)).addCallback(lambda _: None)

    def withdraw_elections(self, topic: str, partitions: Sequence[int] = ()) -> Deferred[tuple[int, ...]]:
        """Take back elections of ``partitions`` (none: all) that were asked for and are not held yet; fires with those.

        Fails as ``reassign``, and with UnsupportedVersion if the broker is of an earlier release, which cannot do it.
        """
        wanted = tuple((number, ANY_LEADER) for number in partitions)
        asking = self._run(_replicas.ask(self._cluster, ElectLeadersV1(topic, "", wanted, withdraw=True)))
        return asking.addCallback(lambda response: response.partitions)

    def drain(self, broker: int, draining: bool = True) -> Deferred[bool]:
        """Let a broker lead nothing that another one can lead, or let it lead again; fires with whether that is new.

        Fails with ClusterAuthorizationFailed.
        """
        asking: Deferred[Any] = self._run(_replicas.ask(self._cluster, DrainBroker(broker, draining)))
        return asking.addCallback(lambda response: response.changed)

    def draining(self) -> Deferred[tuple[int, ...]]:
        """Return the brokers that are to lead nothing. Fails with ClusterAuthorizationFailed."""
        asking: Deferred[Any] = self._run(_replicas.ask(self._cluster, DescribeReplicas("")))
        return asking.addCallback(lambda response: response.draining)

    def describe_replicas(self, topic: str) -> Deferred[dict[int, DescribeReplicasResponse]]:
        """Return each live broker's description of its logs of a topic, by broker; those not reached are left out.

        Fails with UnknownTopic.
        """
        return self._run(_replicas.describe_replicas(self._cluster, topic))

    def begin_at(self, addresses: Sequence[Address]) -> None:
        """Ask the brokers at these addresses first from now on, when there is no connection to any broker."""
        self._cluster.begin_at(addresses)

    def close(self) -> Deferred[None]:
        """Disconnect; fires when done. Never fails."""
        return self._cluster.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> Deferred[T]:
        return Deferred.fromCoroutine(work)

    async def _describe(self, topic: str) -> TopicMetadata:
        check_topic_name(topic)
        return described(await self._cluster.metadata((topic,)), topic)

    async def _create(self, topic: str, partitions: int, settings: dict[str, int | str], replicas: int) -> str:
        check_topic_name(topic)
        numbers = {name: value for name, value in settings.items() if isinstance(value, int)}
        request: CreateTopic | CreateTopicV1 | CreateTopicV2 = CreateTopic(topic, partitions, numbers)
        if replicas:
            texts = {name: str(value) for name, value in settings.items()}
            request = CreateTopicV2(topic, partitions, replicas, texts)
        elif len(numbers) < len(settings):  # otherwise as brokers of earlier releases know it
            request = CreateTopicV1(topic, partitions, {name: str(value) for name, value in settings.items()})
        response = await self._cluster.ask_any(request)
        if response.error:
            raise error_for_code(response.error, response.text)
        uuid: str = response.uuid
        return uuid

    async def _alter(self, request: AlterTopic) -> AlterTopicResponse:
        check_topic_name(request.topic)
        response: AlterTopicResponse = await self._cluster.ask_any(request)
        self._cluster.forget(request.topic)
        if response.error:
            raise error_for_code(response.error, response.text)
        return response

    async def _delete(self, topic: str) -> None:
        check_topic_name(topic)
        response = await self._cluster.ask_any(DeleteTopic(topic))
        self._cluster.forget(topic)
        if response.error:
            raise error_for_code(response.error, response.text)
