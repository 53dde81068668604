"""Builds a broker from its open store and a client of the coordination tree."""

from __future__ import annotations

import random
from collections.abc import Callable

from logd import __version__
from logd.broker.broker import Broker
from logd.broker.flush_pressure import FlushPressure
from logd.broker.kafka.groups.coordinator import GroupCoordinator
from logd.broker.registration import BrokerRegistration
from logd.broker.security.security_view import SecurityView
from logd.broker.topics.directory import TopicDirectory
from logd.broker.topics.ends_recorder import EndsRecorder
from logd.broker.topics.placement import Placement
from logd.broker.topics.reconciler import TopicReconciler
from logd.broker.topics.stored_end_gate import StoredEndGate
from logd.broker.topics.stored_topics import StoredTopics
from logd.broker.topics.topic_changes import TopicAdministration
from logd.config import BrokerSettings
from logd.coord.interfaces import ICoordination
from logd.coord.registries.brokers import BrokerInfo, watch_brokers
from logd.interfaces import Clock, IThreads
from logd.log.store.log_store import LogStore


def join_others(
    tree: ICoordination,
    stored: StoredTopics,
    store: LogStore,
    settings: BrokerSettings,
    threads: IThreads,
    clock: Clock,
    gate: FlushPressure,
    pick: Callable[[int], int] = random.randrange,
) -> tuple[Broker, BrokerRegistration, SecurityView]:
    """Build the broker and its registration. The broker takes requests once its topics agree with the tree.

    ``pick(n)`` is a random number below n; it chooses the broker of a topic's first partition.
    """
    registry = watch_brokers(tree, clock)

    def live() -> list[int]:
        return [info.id for info in registry.values.values()]

    growth = StoredEndGate()
    ends = EndsRecorder(tree, store, clock, store.broker_id, growth)
    store.on_flushed = ends.flushed
    stored.made = growth.hold
    stored.reopened = ends.reopened
    placement = Placement(store.broker_id, live, at=pick(1 << 16))
    # A uuid that was generated here is not shown to clients before the tree was asked for the topic's own uuid.
    known = {topic: entry for topic, entry in stored.entries.items() if topic not in stored.orphans}
    topics = TopicDirectory(known)
    reconciler = TopicReconciler(tree, stored, clock, store.broker_id, ends, topics)
    administration = TopicAdministration(tree, stored, settings, clock, placement, ends, topics, reconciler)
    broker = Broker(settings, store, topics, administration, threads, clock, gate, growth, ends)

    broker.groups = GroupCoordinator(tree, clock, store.broker_id, settings.kafka)

    def info() -> BrokerInfo:
        partitions: dict[str, list[int]] = {}
        for log in store.logs():
            partitions.setdefault(log.topic, []).append(log.partition)
        held = {topic: tuple(sorted(numbers)) for topic, numbers in partitions.items()}
        return BrokerInfo(
            store.broker_id, *broker.advertised, store.instance, held, broker.addresses.own_kafka, __version__
        )

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
    topics.uuid_of_cluster = lambda: membership.cluster
    broker.membership = membership.health
    return broker, membership, security
