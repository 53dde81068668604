"""Assembles a broker from its resources and starts it; ``shutdown`` has the order of a stop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from logd.broker.administration.administration_topic import administration_log_of
from logd.broker.broker import Broker, LegacySessions
from logd.broker.flush_pressure import FlushPressure
from logd.broker.idempotence.known_producers import Idempotence
from logd.broker.idempotence.producer_ids import ProducerIds
from logd.broker.legacy.numbers import counting
from logd.broker.legacy.registry import LOOK_SECONDS, LegacyRegistry
from logd.broker.listening.addresses import KafkaListener
from logd.broker.registration import BrokerRegistration
from logd.broker.resources import BrokerResources, Listener
from logd.broker.security.remembered import RememberedSecurity
from logd.broker.security.security_view import SecurityView
from logd.broker.shutdown import Shutdown, StopReport
from logd.broker.topics.stored_topics import StoredTopics
from logd.broker.wiring import join_others
from logd.config import BrokerSettings
from logd.coord.interfaces import ICoordination
from logd.deferreds.repeating import RepeatedCall
from logd.log.store.file_watch import FileWatch
from logd.log.store.log_store import LogStore
from logd.log.store.topics_file import TopicsFile
from logd.net.limits.connection_quotas import AdmissionLimits
from logd.net.limits.server_limits import ConnectionLimits, Watch
from logd.net.server import Connection, ConnectionFactory
from logd.net.transfer import SendfileSender
from logd.protocol.conversation.server import ServerConversation


@define(eq=False)
class BrokerAssembly:
    """The life cycle of one broker: ``open``, ``join``, ``stop``."""

    _log = Logger()

    settings: BrokerSettings
    resources: BrokerResources
    broker: Broker | None = field(default=None, init=False)
    store: LogStore | None = field(default=None, init=False)
    membership: BrokerRegistration | None = field(default=None, init=False)
    factory: ConnectionFactory | None = field(default=None, init=False)
    #: The listeners: the first is that of native clients.
    _listeners: list[Listener] = field(factory=list, init=False)
    _legacy: LegacyRegistry | None = field(default=None, init=False)
    _security: SecurityView | None = field(default=None, init=False)
    _loops: list[RepeatedCall] = field(factory=list, init=False)
    _waiting: IDelayedCall | None = field(default=None, init=False)
    _stopping: Deferred[StopReport] | None = field(default=None, init=False)

    def open(self) -> Broker:
        """Lock and open the data directory, recover, open the tree, and listen. Blocks; clients wait until ``join``.

        Raises DataDirectoryError, MissingPackage for a package that a setting needs, or ConfigurationError if an
        endpoint cannot be listened on, with everything closed.
        """
        settings, resources = self.settings, self.resources
        if settings.kafka.endpoints:
            from logd.protocol.kafka.package import require_package

            require_package("kafka.listen")
        clock, files, reads = resources.clock, resources.files, resources.read_threads
        gate = FlushPressure()
        store = LogStore(
            resources.data,
            files,
            clock,
            resources.flush_threads,
            settings.log_settings({}),
            broker_id=settings.id,
            flush_workers=settings.flush_threads,
            flush_together=settings.flush_together,
            unflushed_limit=settings.unflushed_bytes,
            on_pressure=gate.set,
            open_files_limit=resources.open_readers,
            open_writers_limit=resources.open_writers,
            report=self._report,
            wall=resources.wall,
        )
        stored = StoredTopics(store, TopicsFile(files, resources.data), reads, settings)
        store.set_replicated(stored.is_replicated)
        store.open(stored.settings_for)
        try:
            stored.reconcile()
            tree = resources.tree.open(resources.data)
            broker, membership, self._security = join_others(
                tree, stored, store, settings, reads, clock, gate, resources.pick, resources.connect, resources.wall
            )
            RememberedSecurity(files, resources.data, reads, broker.authorizer).open()
            keep = settings.kafka.kafka_producer_ms, settings.kafka.kafka_producers_max
            broker.idempotence = Idempotence(files, reads, resources.wall, *keep, ProducerIds(tree))
            broker.replication.on_role = broker.idempotence.forget
            broker.idempotence.heal = broker.healing.heal
            broker.idempotence.is_damaged = broker.healing.is_damaged
            broker.administration_log = administration_log_of(broker, resources.wall)
            broker.authentication.on_failed = broker.administration_log.login_failed
            broker.membership = lambda: self._with_tree(membership.health())
            sender, limits = SendfileSender(reads), _limits(settings)

            def conversation() -> ServerConversation:
                return ServerConversation(settings.frame_bytes, broker.addresses.own_kafka)

            watch: Watch[Connection] = Watch(clock, limits, broker.counters, broker.resting)
            self.factory = ConnectionFactory(conversation, broker, sender, clock, limits, broker.counters, watch=watch)
            broker.counters.foreign_calls = self.factory.watch.callers.counts
            self._listeners.append(resources.listen(self.factory, "listen", 0))
            broker.advertised = self._listeners[0].advertised
            if settings.kafka.advertised:
                self._listen_for_kafka(broker)
            kafka_listeners = self._listeners[1:]
            if settings.legacy.legacy_registry is not None:
                self._legacy = self._register_legacy(broker, tree, conversation)
        except BaseException:
            for listener in self._listeners:
                listener.stop()
            self._close_tree()
            store.close()
            raise
        broker.addresses.own_kafka = tuple([listener.advertised for listener in kafka_listeners])
        self.broker, self.store, self.membership = broker, store, membership
        return broker

    def _listen_for_kafka(self, broker: Broker) -> None:
        """Listen for clients of today's Kafka; a broker that does not need not import what they ask for."""
        from logd.broker.kafka.session import KafkaSessions
        from logd.protocol.kafka.conversation import KafkaConversation

        assert self.factory is not None
        broker.kafka_groups.get()  # imported now, and not while the first client waits
        kafka = partial(KafkaConversation, self.settings.frame_bytes, "{}:{}".format(*broker.advertised))
        for place, address in enumerate(self.settings.kafka.advertised):
            factory = self.factory.beside(kafka, KafkaSessions(broker, KafkaListener(place, address)))
            self._listeners.append(self.resources.listen(factory, "kafka.listen", place))

    def _register_legacy(
        self, broker: Broker, tree: ICoordination, conversation: Callable[[], ServerConversation]
    ) -> LegacyRegistry:
        """Listen for clients of Kafka 0.7 that use ZooKeeper, and return what registers the address."""
        settings, resources = self.settings, self.resources
        assert self.factory is not None and settings.legacy.legacy_registry is not None
        factory = self.factory.beside(conversation, LegacySessions(broker))
        self._listeners.append(resources.listen(factory, "legacy.listen", 0))
        number, address = broker.store.broker_id, self._listeners[-1].advertised
        counts = counting(broker.topics, number, settings)
        return LegacyRegistry(tree, resources.clock, settings.legacy.legacy_registry, number, address, counts)

    def join(self) -> None:
        """Join the other brokers and start the housekeeping of the logs."""
        broker, store, membership = self.broker, self.store, self.membership
        assert broker is not None and store is not None and membership is not None
        settings, clock = self.settings, self.resources.clock
        membership.start()
        broker.replication.start()
        broker.controller.start()
        broker.healing.start()
        assert self._security is not None
        self._security.start()
        self.resources.tree.connect()
        if self._legacy is not None:  # a producer of 0.7 that comes before the loop's first look would give up
            self._look_after(self._legacy.look)
        self._waiting = clock.callLater(settings.zookeeper_timeout_ms / 1000, self._serve_what_is_known)
        watch = FileWatch(self.resources.files, self.resources.read_threads, store.logs)
        for work, milliseconds in (
            (store.expire, settings.retention_check_ms),
            (store.write_checkpoints, settings.checkpoint_ms),
            (watch.look, settings.checkpoint_ms),
            (broker.idempotence.write, settings.checkpoint_ms),
            *(() if self._legacy is None else ((self._legacy.look, LOOK_SECONDS * 1000),)),
        ):
            loop = RepeatedCall(clock, milliseconds / 1000, partial(self._look_after, work))
            loop.start()
            self._loops.append(loop)

    def stop(self) -> Deferred[StopReport]:
        """Stop accepting, finish or refuse requests in flight, flush, write checkpoints, and close. See ``shutdown``.

        Fires within ``stop.ms``, whatever clients, the tree and the disk do. A second call has the same outcome.
        """
        if self._stopping is None:
            self._stopping = Deferred.fromCoroutine(self._stop())
        waiter: Deferred[StopReport] = Deferred()

        def stopped(result: StopReport) -> StopReport:
            waiter.callback(result)
            return result

        self._stopping.addCallbacks(stopped, waiter.errback)
        return waiter

    async def _stop(self) -> StopReport:
        broker, store, membership = self.broker, self.store, self.membership
        if broker is None or store is None or membership is None:
            return StopReport({}, ())
        for loop in self._loops:
            loop.stop()
        broker.healing.stop()
        if self._security is not None:
            self._security.stop()
        if self._legacy is not None:  # what is not removed in time ends with the session
            Deferred.fromCoroutine(self._legacy.stop())
        if self._waiting is not None and self._waiting.active():
            self._waiting.cancel()
        return await Shutdown(self.settings.stop_ms, self.resources, broker, store, membership, self._listeners).run()

    def _with_tree(self, health: dict[str, Any]) -> dict[str, Any]:
        """Return the membership's health, with the tree's problem if it has one."""
        problem = self.resources.tree.problem
        return {**health, "problem": problem} if problem is not None else health

    def _serve_what_is_known(self) -> None:
        if self.broker is not None and not self.broker.ready:
            self._log.warn(
                "this broker has not joined the other brokers: {problem}; topics in its data directory that have no "
                "replicas are served meanwhile",
                problem=None if self.membership is None else self.membership.problem,
            )
            self.broker.begin()

    def _close_tree(self) -> None:
        """Close the tree after a failed start."""

        async def close() -> None:
            await self.resources.tree.leave()
            await self.resources.tree.close()

        Deferred.fromCoroutine(close()).addErrback(
            lambda failure: self._log.failure("the coordination tree could not be closed", failure)
        )

    def _report(self, format: str, **fields: Any) -> None:  # noqa: A002
        self._log.warn(format, **fields)

    def _look_after(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            self._log.failure("housekeeping of the logs failed; the next run tries again")


def _limits(settings: BrokerSettings) -> ConnectionLimits:
    return ConnectionLimits(
        settings.connection_requests,
        settings.frames_bytes,
        _or_none(settings.frame_ms),
        _or_none(settings.send_ms),
        _or_none(settings.idle_ms),
        admission=AdmissionLimits(settings.connections_max, _or_none(settings.connections_address_max)),
    )


def _or_none(limit: int) -> int | None:
    return None if limit == -1 else limit
