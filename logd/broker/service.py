"""The broker as a Twisted service: provides the reactor, the disk, threads, ports and signals."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.broker.assembly import BrokerAssembly
from logd.broker.broker import Broker
from logd.broker.coordination import BrokerCoordination
from logd.broker.descriptors import PAGE_CONNECTIONS, raise_limit, share_out
from logd.broker.listening.ports import BrokerPorts
from logd.broker.process_end import ProcessEnd, end_unclean
from logd.broker.resources import BrokerResources
from logd.config import BrokerSettings
from logd.coord.interfaces import ICoordination
from logd.errors import LogdError
from logd.interfaces import IFileOperations
from logd.log.disk.local_files import LocalFiles
from logd.net.server import ConnectionFactory
from logd.net.threads import DiskThreads
from logd.plurals import counted
from logd.protocol.implementation import UNUSABLE
from logd.unprinted import leave_unprinted

if TYPE_CHECKING:
    from logd.broker.metrics.registry import BrokerRegistry
    from logd.net.connection import BrokerConnection


class BrokerService(Service):
    """The service of one broker. ``makeService`` only constructs it; it starts after twistd's fork."""

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        settings: BrokerSettings,
        foreground: bool = False,
        files: IFileOperations | None = None,
        signals: bool = True,
        ports: BrokerPorts | None = None,
    ) -> None:
        """``foreground``: a person at a terminal reads a failure to start, so it is shown without a traceback.

        ``files`` replaces the disk, ``ports`` how ports are opened. ``signals``: the process belongs to the broker, and
        SIGTERM stops it.
        """
        self._reactor = reactor
        self._settings = settings
        self._ports = BrokerPorts(reactor, settings) if ports is None else ports
        self._foreground = foreground
        self._signals = signals
        self._files: IFileOperations = LocalFiles() if files is None else files
        self._flush_threads = DiskThreads(reactor, settings.flush_threads + 1, "logd-flush")
        self._read_threads = DiskThreads(reactor, settings.io_threads, "logd-read")
        self.broker: Broker | None = None
        self._assembly: BrokerAssembly | None = None
        self._coordination = BrokerCoordination(reactor, settings, self._files)
        self._stopping: Deferred[None] | None = None
        #: Called before a stop, which waits for it: by services that use the broker to their end.
        self.before_stop: Callable[[], Deferred[None]] | None = None
        self._process_end = ProcessEnd(reactor, settings.stop_ms / 1000, foreground)
        self._registry: BrokerRegistry | None = None

    @property
    def registry(self) -> BrokerRegistry:
        """The metrics of the broker, for who asks before its start; otherwise there are none."""
        if self._registry is None:
            from logd.broker.metrics.registry import BrokerRegistry

            self._registry = BrokerRegistry()
        return self._registry

    def health(self) -> dict[str, Any]:
        """Return the content of /health."""
        return self.broker.health() if self.broker is not None else {"status": "starting"}

    def ailment(self) -> str | None:
        """Return the reason why a new process would do better than this one; None while there is none."""
        lost = self._flush_threads.lost + self._read_threads.lost
        return f"{counted(lost, 'thread')} of the disk's have ended" if lost and self._stopping is None else None

    def native_factory(self) -> ConnectionFactory:
        """Return the factory of native clients' connections, after the start."""
        assert self._assembly is not None and self._assembly.factory is not None
        return self._assembly.factory

    def coordination(self) -> ICoordination | None:
        """Return the broker's client of the coordination tree; None before the start."""
        return self._coordination.client

    def startService(self) -> None:  # noqa: N802
        """Lock and open the data directory, recover, and listen, all before returning, so that a failure ends twistd.

        Raises DataDirectoryError, MissingPackage for a package that a setting needs, or ConfigurationError if an
        endpoint cannot be listened on; LogdError after a stop, as a service starts once.
        """
        try:
            if self._stopping is not None:
                raise LogdError("this BrokerService was stopped: make another one to start the broker again")
            self._start()
        except LogdError as error:
            self.log.critical("cannot start: {error}", error=str(error))
            if self._foreground:
                leave_unprinted(error)
            raise
        super().startService()  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        # By default Twisted exits with the signal's status after SIGTERM; a clean stop exits with 0.
        if self._signals:
            self._reactor.callWhenRunning(self._process_end.catch_signals)

    def _start(self) -> None:
        settings = self._settings
        pages = 0 if settings.http is None else PAGE_CONNECTIONS
        descriptors = share_out(raise_limit(), settings.connections_max, self.log.warn, pages)
        resources = BrokerResources(
            self._reactor,
            time.time,
            self._files,
            os.path.abspath(settings.data),
            self._flush_threads,
            self._read_threads,
            self._coordination,
            self._ports.listen,
            self._end_threads,
            partial(_connect, self._reactor, settings.replication.replica_tls_authorities),
            descriptors.readers,
            descriptors.writers,
        )
        self._assembly = assembly = BrokerAssembly(settings, resources)
        self._flush_threads.start()
        self._read_threads.start()
        try:
            broker = assembly.open()
        except BaseException:
            self._read_threads.stop()
            self._flush_threads.stop()
            raise
        self.broker = broker
        assembly.join()
        if self._registry is not None:
            self._register(self._registry, assembly, broker)
        if UNUSABLE is not None:
            self.log.warn("{warning}", warning=UNUSABLE)
        self.log.info(
            "broker {id} serves {partitions} of {data} at {host}:{port}",
            id=broker.store.broker_id,
            partitions=counted(len(broker.store.logs()), "partition"),
            data=settings.data,
            host=broker.advertised[0],
            port=broker.advertised[1],
        )

    def _register(self, registry: BrokerRegistry, assembly: BrokerAssembly, broker: Broker) -> None:
        """Have ``registry`` collect the metrics. Imported here, as a broker without pages needs none of it."""
        from prometheus_client import ProcessCollector

        from logd.broker.latency.metrics import LatencyMetrics
        from logd.broker.metrics.broker_metrics import BrokerMetrics
        from logd.broker.metrics.coordination import CoordinationMetrics
        from logd.broker.metrics.partitions import PartitionMetrics
        from logd.broker.security.quota_metrics import QuotaMetrics

        registry.register(BrokerMetrics(broker))
        registry.partitions = PartitionMetrics(broker.store.logs)
        registry.register(QuotaMetrics(broker.quotas))
        registry.register(LatencyMetrics(broker))
        ProcessCollector(registry=registry)
        if assembly.membership is not None:
            registry.register(CoordinationMetrics(assembly.membership, self._coordination.figures))

    def stopService(self) -> Deferred[None]:  # noqa: N802
        """Stop in order within ``stop.ms``; see BrokerAssembly.stop. Fires when the broker has stopped."""
        if self._stopping is None:
            super().stopService()  # type: ignore[no-untyped-call]  # as above
            self._stopping = Deferred.fromCoroutine(self._stop())
        return self._stopping

    async def _stop(self) -> None:
        if self._assembly is None:
            return
        self.log.info("stopping")
        if self.before_stop is not None and self.broker is not None:
            self.broker.stop_kafka()
            await self.before_stop()
        report = await self._assembly.stop()
        self._process_end.stopped(report.clean)
        if self._signals and not report.clean:
            # Threads that wait for the disk are abandoned; the exit status tells a supervisor.
            atexit.register(end_unclean)

    async def _threads_ended(self) -> None:
        await self._read_threads.end()
        await self._flush_threads.end()

    def _end_threads(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._threads_ended())


def _connect(reactor: Any, authorities: str | None, address: tuple[str, int], tls: bool) -> Deferred[BrokerConnection]:
    # Imported here: a broker by itself never connects to another one.
    from logd.broker.listening.peers import connect_to_broker

    return connect_to_broker(reactor, authorities, address, tls)
