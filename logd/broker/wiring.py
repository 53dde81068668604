"""Builds a broker from its open store and a client of the coordination tree."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred, fail

from logd import __version__
from logd.broker.broker import Broker
from logd.broker.flush_pressure import FlushPressure
from logd.broker.registration import BrokerRegistration
from logd.broker.replication.broker_links import BrokerLinks
from logd.broker.replication.control.controller import Controller
from logd.broker.replication.control.operations import ReplicaOperations
from logd.broker.replication.control.operator_work import OperatorWork
from logd.broker.replication.healing.healing import Healing
from logd.broker.replication.replica_manager import ReplicaManager
from logd.broker.requests.core import KafkaGroupsOnDemand
from logd.broker.security.group_access import GroupAccess
from logd.broker.security.security_view import SecurityView
from logd.broker.topics.comparison import TopicComparison
from logd.broker.topics.directory import TopicDirectory
from logd.broker.topics.ends_recorder import EndsRecorder
from logd.broker.topics.placement import Placement
from logd.broker.topics.reconciler import TopicReconciler
from logd.broker.topics.stored_end_gate import StoredEndGate
from logd.broker.topics.stored_topics import StoredTopics
from logd.broker.topics.topic_changes import TopicAdministration
from logd.broker.verification.verifier import LogVerifier
from logd.config import BrokerSettings
from logd.coord.interfaces import ICoordination
from logd.coord.registries.brokers import BrokerInfo, watch_brokers
from logd.coord.registries.partition_states import PartitionStates
from logd.errors import BrokerUnavailable
from logd.interfaces import Clock, IThreads
from logd.log.partition import PartitionLog
from logd.log.store.log_store import LogStore
from logd.security.credentials import Credentials
from logd.topic import TopicEntry

if TYPE_CHECKING:
    from logd.broker.kafka.groups.coordinator import GroupCoordinator
    from logd.net.connection import BrokerConnection


def join_others(
    tree: ICoordination,
    stored: StoredTopics,
    store: LogStore,
    settings: BrokerSettings,
    threads: IThreads,
    clock: Clock,
    gate: FlushPressure,
    pick: Callable[[int], int] = random.randrange,
    connect: Callable[[tuple[str, int], bool], Deferred[BrokerConnection]] | None = None,
    wall: Callable[[], float] = time.time,
) -> tuple[Broker, BrokerRegistration, SecurityView]:
    """Build the broker and its registration. The broker takes requests once its topics agree with the tree.

    ``pick(n)`` is a random number below n; it chooses the broker of a topic's first partition. ``wall()`` returns the
    time of day.
    """
    registry = watch_brokers(tree, clock, lambda name: brokers_changed())

    def live() -> list[int]:
        return [info.id for info in registry.values.values()]

    def instances() -> dict[int, str]:
        return {info.id: info.instance for info in registry.values.values()}

    def racks() -> dict[int, str]:
        return {info.id: info.rack for info in registry.values.values() if info.rack}

    growth = StoredEndGate()
    ends = EndsRecorder(tree, store, clock, store.broker_id, growth)
    store.on_flushed = ends.flushed
    stored.made = growth.hold
    stored.reopened = ends.reopened
    placement = Placement(store.broker_id, live, at=pick(1 << 16), racks=racks)
    # A uuid that was generated here is not shown to clients before the tree was asked for the topic's own uuid.
    known = {topic: entry for topic, entry in stored.entries.items() if topic not in stored.orphans}
    topics = TopicDirectory(known)
    comparison = TopicComparison(tree, stored, ends, topics, store.broker_id, wall)
    reconciler = TopicReconciler(tree, stored, clock, store.broker_id, ends, topics, comparison)
    administration = TopicAdministration(tree, stored, settings, clock, placement, ends, topics, reconciler, instances)
    broker = Broker(settings, store, topics, administration, threads, clock, gate, growth, ends)

    broker.group_access = GroupAccess(tree, broker.authorizer, clock)

    def make_groups() -> GroupCoordinator:
        from logd.broker.kafka.groups.coordinator import GroupCoordinator  # for a listener of theirs alone

        return GroupCoordinator(tree, clock, store.broker_id, settings.kafka, broker.resting)

    broker.kafka_groups = KafkaGroupsOnDemand(make_groups)

    def info(whole: bool) -> BrokerInfo:
        partitions: dict[str, list[int]] = {}
        for log in store.logs() if whole else ():
            partitions.setdefault(log.topic, []).append(log.partition)
        held = {topic: tuple(sorted(numbers)) for topic, numbers in partitions.items()}
        return BrokerInfo(
            store.broker_id,
            *broker.advertised,
            store.instance,
            held,
            broker.addresses.own_kafka,
            __version__,
            settings.replication.rack,
            settings.listen.startswith("ssl:"),
        )

    def connect_to(number: int) -> Deferred[BrokerConnection]:
        info = registry.values.get(str(number))
        if info is None and not registry.complete:  # after a start nobody is known yet
            return registry.when_complete().addCallback(lambda _: connect_to(number))
        if info is None or connect is None:
            return fail(BrokerUnavailable(f"broker {number} is not registered now"))
        return connect((info.host, info.port), info.tls)

    def least(entry: TopicEntry) -> int:
        value = entry.settings.get("min.insync.replicas", settings.log.min_insync_replicas)
        return value if isinstance(value, int) else settings.log.min_insync_replicas

    def own_credentials() -> Credentials | None:
        return None if broker.authorizer.open else broker.authentication.own_credentials()

    links = BrokerLinks(store.broker_id, clock, connect_to, own_credentials)
    states = PartitionStates(tree, clock)
    broker.replication = replication = ReplicaManager(
        store,
        states,
        threads,
        clock,
        topics,
        ends,
        settings.replication,
        instances,
        links,
        lambda: pick(1 << 30) / (1 << 30),
    )
    verifier = LogVerifier(store, threads, clock, settings.verify_bytes_per_second, settings.verify_ms / 1000, pick)
    broker.healing = Healing(replication, verifier, wall, lambda: pick(1 << 30) / (1 << 30))
    balance = settings.replication.leader_balance_ms
    broker.controller = controller = Controller(
        tree,
        clock,
        store.broker_id,
        lambda: store.instance,
        topics,
        states,
        instances,
        least,
        OperatorWork(tree, topics, states, instances, lambda topic: broker.operations.survey(topic)),
        None if balance == -1 else balance / 1000,
    )
    broker.operations = ReplicaOperations(tree, topics, replication, store.broker_id, instances, racks, clock, links)
    replication.on_change = controller.look_at

    def log_opened(log: PartitionLog) -> None:
        stored.log_opened(log)
        replication.log_opened(log)

    store.on_opened = log_opened

    def topic_changed(topic: str, entry: TopicEntry | None) -> None:
        if entry is None:
            replication.topic_hidden(topic)
        else:
            replication.topic_shown(topic, entry)
        if entry is not None and entry.replicated:
            controller.look_at_topic(topic, entry)
        if entry is None or entry.replicated:
            broker.operations.look_at_rates()

    def brokers_changed() -> None:
        replication.brokers_changed()
        controller.look()

    topics.on_change = topic_changed

    security = SecurityView(
        tree,
        clock,
        broker.authorizer,
        broker.authentication,
        broker.take_users,
        broker.take_quotas,
        broker.seen_in_tree,
    )
    broker.watch_rights()

    def begun() -> None:
        """Serve clients once it is known as well what they may do."""
        security.when_known().addCallback(lambda _: broker.begin())

    membership = BrokerRegistration(tree, clock, info, registry, reconciler, begun)
    broker.addresses.native = membership.live
    broker.addresses.kafka = membership.live_kafka
    broker.addresses.racks = racks
    topics.uuid_of_cluster = lambda: membership.cluster
    administration.registration_problem = lambda: membership.problem
    broker.membership = membership.health
    return broker, membership, security
