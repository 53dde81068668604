"""The part of a broker that all its connections share: its logs, topics, settings and state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail

from logd.broker.counters import Counters
from logd.broker.flush_pressure import FlushPressure
from logd.broker.idempotence.known_producers import Idempotence
from logd.broker.listening.addresses import Address, BrokerAddresses
from logd.broker.requests.waiting_fetch import LargeFetchQueue
from logd.broker.routing import Routing
from logd.broker.security.administration_log import AdministrationLog
from logd.broker.security.authentication import Authentication
from logd.broker.security.authorizer import Authorizer
from logd.broker.security.group_access import GroupAccess
from logd.broker.security.quotas import Quotas
from logd.broker.security.requester import Requester
from logd.broker.topics.directory import TopicDirectory
from logd.broker.topics.ends_recorder import EndsRecorder
from logd.broker.topics.stored_end_gate import StoredEndGate
from logd.broker.topics.topic_changes import TopicAdministration
from logd.config import BrokerSettings
from logd.config.log import LEGACY_FORMAT
from logd.deferreds.fair_turns import FairTurns, RestingWorks
from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import TopicExists, WireError
from logd.interfaces import Clock, IThreads
from logd.log.store.log_store import LogStore
from logd.topic import TopicEntry

if TYPE_CHECKING:
    from logd.broker.kafka.groups.coordinator import GroupCoordinator
    from logd.broker.replication.control.controller import Controller
    from logd.broker.replication.control.operations import ReplicaOperations
    from logd.broker.replication.healing.healing import Healing
    from logd.broker.replication.replica_manager import ReplicaManager

#: The settings of topics that clients use and that are created for that: none, or those for clients of 0.7.
NO_SETTINGS: Mapping[str, int | str] = MappingProxyType({})
LEGACY_SETTINGS: Mapping[str, int | str] = MappingProxyType({"message.format": LEGACY_FORMAT})


@define(eq=False)
class KafkaGroupsOnDemand:
    """Makes the coordinator, and imports it, when it is needed: a broker without the listener never needs it."""

    _make: Callable[[], GroupCoordinator]
    _made: GroupCoordinator | None = field(default=None, init=False)

    def get(self) -> GroupCoordinator:
        """Return the coordinator."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def stop(self) -> None:
        """Tell the members of all groups that this broker coordinates them no more."""
        if self._made is not None:
            self._made.stop()


@define(eq=False)
class BrokerCore:
    """The state that all request handlers share."""

    settings: BrokerSettings
    store: LogStore
    #: The topics as clients are told of them, and the administration that creates and deletes topics.
    topics: TopicDirectory
    administration: TopicAdministration
    #: Threads for blocking reads.
    threads: IThreads
    clock: Clock
    #: Pauses producers; shut by the store when too many bytes are unflushed.
    gate: FlushPressure
    #: Logs that may not grow now.
    growth: StoredEndGate
    #: The stored ends of this broker's logs in the tree.
    ends: EndsRecorder
    counters: Counters = field(factory=Counters, init=False)
    routing: Routing = field(init=False)
    large_fetches: LargeFetchQueue = field(init=False)
    #: Partitions that are being repaired.
    repairs: set[tuple[str, int]] = field(factory=set, init=False)
    stopping: bool = field(default=False, init=False)
    #: The (host, port) that clients are told to connect to.
    advertised: tuple[str, int] = field(default=("127.0.0.1", 0), init=False)
    #: The addresses of all brokers.
    addresses: BrokerAddresses = field(factory=BrokerAddresses, init=False)
    #: The batches that idempotent producers of Kafka have sent.
    idempotence: Idempotence = field(init=False)
    #: Decides what requesters may do.
    authorizer: Authorizer = field(init=False)
    #: Checks who they are.
    authentication: Authentication = field(init=False)
    #: The log of administration.
    administration_log: AdministrationLog = field(init=False)
    #: The limits on the use of this broker by each user.
    quotas: Quotas = field(init=False)
    #: The groups of today's Kafka clients that this broker coordinates.
    kafka_groups: KafkaGroupsOnDemand = field(init=False)
    #: The access lists of groups in the tree.
    group_access: GroupAccess = field(init=False)
    #: The replicas of partitions that several brokers store.
    replication: ReplicaManager = field(init=False)
    #: The verification of all logs, and the healing of replicas.
    healing: Healing = field(init=False)
    controller: Controller = field(init=False)
    operations: ReplicaOperations = field(init=False)
    _creating: dict[str, WaitingDeferreds[None]] = field(factory=dict, init=False)
    #: The long requests of all clients that let others be served now.
    resting: RestingWorks = field(init=False)

    def __attrs_post_init__(self) -> None:
        security = self.settings.security
        self.authorizer = Authorizer(security.security_required, security.superusers)
        self.authentication = Authentication(self.clock, self.threads)
        of_address = security.requests_address_max
        self.quotas = Quotas(self.clock, self.topics, None if of_address == -1 else of_address)
        self.store.flusher.observe_sync = self.counters.latencies.syncs.observe
        self.store.flusher.observe_visible = self.counters.latencies.visible.observe
        self.large_fetches = LargeFetchQueue(self.clock)
        self.resting = RestingWorks(self.clock)
        create, due_now = self.settings.creates_on_demand, self.store.flusher.due_now
        self.routing = Routing(self.store, self.topics, self.counters, self.clock, create, due_now)

    def turns(self) -> FairTurns:
        """Return the turns of one request that names many things, which it shares with all other requests."""
        return FairTurns(self.clock, self.resting)

    def brokers(self) -> dict[int, tuple[str, int]]:
        """Return the address of each live broker, always including this one."""
        return {**self.addresses.native(), self.store.broker_id: self.advertised}

    def kafka_addresses(self, place: int, reached: Address) -> dict[int, Address]:
        """Return the address of each live broker that a client of today's Kafka can reach, always including this one.

        ``place`` is that of the listener by which the client has reached this broker, at the address ``reached``. A
        broker without a listener of this place is left out.
        """
        return {**self.addresses.for_kafka(place), self.store.broker_id: reached}

    def create_topic(
        self, requester: Requester, topic: str, partitions: int, settings: Mapping[str, int | str], **more: Any
    ) -> Deferred[TopicEntry]:
        """Create a topic for a client. Fails as ``TopicAdministration.create``, and with QuotaExceeded."""
        try:
            self.quotas.check_create(requester, topic, partitions)
        except WireError:
            return fail()
        creator = self.quotas.creator(requester)
        creating = self.administration.create(topic, partitions, settings, created_by=creator, **more)
        return self.quotas.creating(requester, topic, partitions, creating)

    def create_on_demand(
        self, requester: Requester, topic: str, settings: Mapping[str, int | str] = NO_SETTINGS
    ) -> Deferred[None]:
        """Create a topic that a client uses; connections that ask for it at the same time share the first creation.

        A producer of 0.7 that finds brokers in the tree sends to all of them until it knows who has a new topic, and
        gets no answers: so such a topic has a partition on each. Fails as ``create_topic``, but not with TopicExists.
        """
        waiters = self._creating.get(topic)
        if waiters is not None:
            return waiters.new()
        waiters = self._creating[topic] = WaitingDeferreds()
        waiter = waiters.new()
        replicas, partitions = 0, self.settings.topics_partitions
        if settings is LEGACY_SETTINGS and self.settings.legacy.legacy_registry is not None:
            # Replicated topics are not served to clients of 0.7 that use ZooKeeper: see logd.broker.legacy.numbers.
            replicas, partitions = 1, max(partitions, len(self.brokers()))
        creating: Deferred[Any] = self.create_topic(requester, topic, partitions, settings, replicas=replicas)
        creating.addErrback(lambda failure: failure.trap(TopicExists))
        creating.addBoth(self._created, topic)
        return waiter

    def _created(self, result: Any, topic: str) -> None:
        waiters = self._creating.pop(topic)
        if isinstance(result, TopicEntry) or result is TopicExists:
            waiters.fire(None)
        else:
            waiters.fail(result)
