"""The broker as a Twisted service: what is opened at the start, and what happens in which order at the end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IDelayedCall, IListeningPort
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.broker.broker import Broker
from logd.broker.coordination import BrokerCoordination
from logd.broker.coordinationmetrics import CoordinationMetrics
from logd.broker.descriptors import raise_limit, share_out
from logd.broker.joining import join_others
from logd.broker.membership import Membership
from logd.broker.metrics import BrokerMetrics
from logd.broker.pressure import ProducerGate
from logd.broker.storedtopics import StoredTopics
from logd.config import BrokerSettings, parse_address
from logd.errors import ConfigurationError, LogdError
from logd.interfaces import IFileOperations
from logd.log.files import LocalFiles
from logd.log.store import LogStore
from logd.log.topicsfile import TopicsFile
from logd.net.limits import ConnectionLimits
from logd.net.server import ConnectionFactory
from logd.net.threads import DiskThreads
from logd.net.transfer import SendfileSender

#: Seconds between two looks whether the last answers have left, while stopping.
STOP_POLL_SECONDS = 0.02
#: Connections that may wait to be accepted. Twisted has 50, and who comes when they wait tries again after a second.
BACKLOG = 1024


class BrokerService(Service):
    """Everything that a broker is, in one process. ``makeService`` only makes it; it starts after twistd's fork."""

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        settings: BrokerSettings,
        foreground: bool = False,
        files: IFileOperations | None = None,
        signals: bool = True,
    ) -> None:
        """``foreground``: a failure to start is for a person at a terminal, who is better off without a traceback.

        ``files`` stands in for the disk. ``signals``: whether the process is the broker's, which SIGTERM then stops.
        """
        self._reactor = reactor
        self._settings = settings
        self._foreground = foreground
        self._signals = signals
        self._files: IFileOperations = LocalFiles() if files is None else files
        self._port: IListeningPort | None = None
        self._loops: list[LoopingCall] = []
        self._flush_threads = DiskThreads(reactor, settings.flush_threads + 1, "logd-flush")
        self._read_threads = DiskThreads(reactor, settings.io_threads, "logd-read")
        self.broker: Broker | None = None
        self._store: LogStore | None = None
        self._coordination = BrokerCoordination(reactor, settings, self._files)
        self._membership: Membership | None = None
        self._waiting: IDelayedCall | None = None
        self._stopping: Deferred[None] | None = None
        #: Whether SIGTERM has come; a reactor cannot be stopped twice.
        self._terminated = False
        self.registry = CollectorRegistry()

    def health(self) -> dict[str, Any]:
        """What /health shows."""
        return self.broker.health() if self.broker is not None else {"status": "starting"}

    def startService(self) -> None:  # noqa: N802
        """Lock and open the data directory, recover, listen: all of it before returning, so that a failure is seen.

        Raises DataDirectoryError, or ConfigurationError when the endpoint cannot be listened on.
        """
        try:
            self._start()
        except LogdError as error:
            self.log.critical("cannot start: {error}", error=str(error))
            if self._foreground:
                sys.tracebacklimit = 0
                raise error from None
            raise
        super().startService()  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        # Twisted ends a process that was told to terminate with the signal's status; a clean stop deserves a 0.
        if self._signals:
            self._reactor.callWhenRunning(self._catch_terminate)

    def _start(self) -> None:
        settings = self._settings
        self._flush_threads.start()
        self._read_threads.start()
        try:
            files = self._files
            path = os.path.abspath(settings.data)
            gate = ProducerGate()
            descriptors = share_out(raise_limit(), settings.connections_max, self.log.warn)
            store = LogStore(
                path,
                files,
                self._reactor,
                self._flush_threads,
                settings.log,
                broker_id=settings.id,
                flush_workers=settings.flush_threads,
                unflushed_limit=settings.unflushed_bytes,
                on_pressure=gate.set,
                open_files_limit=descriptors.readers,
                open_writers_limit=descriptors.writers,
                report=self._report,
            )
            stored = StoredTopics(store, TopicsFile(files, path), self._read_threads, settings)
            store.open(stored.settings_for)
            self._store = store
            stored.reconcile()
            self._coordination.listen(path)
            tree = self._coordination.client()
            broker, membership = join_others(tree, stored, store, settings, self._read_threads, self._reactor, gate)
            broker.membership = lambda: self._with_tree(membership.health())
            self._listen(broker)
        except BaseException:
            self._coordination.abandon()
            if self._store is not None:
                self._store.close()
            self._stop_threads()
            raise
        self.broker = broker
        self._membership = membership
        membership.start()
        self._coordination.connect()
        self._waiting = self._reactor.callLater(settings.zookeeper_timeout_ms / 1000, self._serve_what_is_known)
        self.registry.register(BrokerMetrics(broker))
        self.registry.register(CoordinationMetrics(membership, self._coordination.figures))
        for work, milliseconds in (
            (store.expire, settings.retention_check_ms),
            (store.write_checkpoints, settings.checkpoint_ms),
        ):
            loop = LoopingCall(self._look_after, work)
            loop.clock = self._reactor
            loop.start(milliseconds / 1000, now=False)
            self._loops.append(loop)
        self.log.info(
            "broker {id} serves {partitions} partitions of {data} at {host}:{port}",
            id=store.broker_id,
            partitions=len(store.logs()),
            data=settings.data,
            host=broker.advertised[0],
            port=broker.advertised[1],
        )

    def _listen(self, broker: Broker) -> None:
        settings = self._settings
        limits = ConnectionLimits(
            settings.frame_bytes,
            settings.connection_requests,
            settings.frames_bytes,
            _or_none(settings.frame_ms),
            _or_none(settings.send_ms),
            _or_none(settings.idle_ms),
        )
        factory = ConnectionFactory(broker, SendfileSender(self._read_threads), self._reactor, limits)
        outcome: list[Any] = []
        # TCP and UNIX endpoints listen before they return; a port in use has to stop the start.
        serverFromString(self._reactor, settings.listen).listen(factory).addBoth(outcome.append)
        if outcome and isinstance(outcome[0], Failure):
            raise ConfigurationError(
                f"cannot listen on {settings.listen!r}: {outcome[0].getErrorMessage().rstrip('.')}; "
                "is another broker running there? Give another --listen"
            )
        self._port = outcome[0] if outcome else None
        listening = getattr(self._port, "socket", None)
        if listening is not None and "backlog=" not in settings.listen:
            listening.listen(BACKLOG)
        broker.advertised = self._advertised()

    def _advertised(self) -> tuple[str, int]:
        if self._settings.advertise is not None:
            return parse_address(self._settings.advertise)
        address: Any = self._port.getHost() if self._port is not None else None
        host, port = getattr(address, "host", "127.0.0.1"), getattr(address, "port", 0)
        if host in ("0.0.0.0", "::", ""):
            self.log.warn("clients are told to connect to 127.0.0.1: say --advertise HOST:PORT for those elsewhere")
            host = "127.0.0.1"
        return host, port

    def stopService(self) -> Deferred[None]:  # noqa: N802
        """Stop accepting, finish or refuse what is in flight, flush, checkpoint, close. Fires when all is done."""
        if self._stopping is None:
            super().stopService()  # type: ignore[no-untyped-call]  # as above
            self._stopping = Deferred.fromCoroutine(self._stop())
        return self._stopping

    async def _stop(self) -> None:
        broker, store = self.broker, self._store
        if broker is None or store is None:
            return
        self.log.info("stopping")
        if self._port is not None:
            await _as_deferred(self._port.stopListening())
        for loop in self._loops:
            loop.stop()
        broker.stop()
        broker.begin()  # who waited for the tree is told that it is too late
        if self._waiting is not None and self._waiting.active():
            self._waiting.cancel()
        if self._membership is not None:
            await self._membership.stop()
        await _flushed(store)
        deadline = self._reactor.seconds() + self._settings.stop_ms / 1000
        while self._reactor.seconds() < deadline and not all(s.connection.idle for s in broker.sessions):
            await deferLater(self._reactor, STOP_POLL_SECONDS)
        for session in tuple(broker.sessions):
            session.connection.close()
        while self._reactor.seconds() < deadline and broker.sessions:
            await deferLater(self._reactor, STOP_POLL_SECONDS)
        for session in tuple(broker.sessions):
            session.connection.abort()
        # A producer of 0.7 is told nothing, so what it sent to the last is kept as well.
        await _flushed(store)
        await self._coordination.close()
        self._stop_threads()
        store.close()
        self.log.info("stopped; every partition is flushed")

    def _with_tree(self, health: dict[str, Any]) -> dict[str, Any]:
        """What /health shows of the others, and of the tree when that is the trouble."""
        problem = self._coordination.problem
        return {**health, "problem": problem} if problem is not None else health

    def _serve_what_is_known(self) -> None:
        if self.broker is not None and not self.broker.ready:
            self.log.warn("the coordination tree was not reached yet; what is known without it is served")
            self.broker.begin()

    def _stop_threads(self) -> None:
        self._read_threads.stop()
        self._flush_threads.stop()

    def _catch_terminate(self) -> None:
        def stop() -> None:
            if not self._terminated:
                self._terminated = True
                self._reactor.stop()

        def terminate(number: int, frame: Any) -> None:
            self._reactor.callFromThread(stop)

        signal.signal(signal.SIGTERM, terminate)

    def _report(self, format: str, **fields: Any) -> None:  # noqa: A002
        self.log.warn(format, **fields)

    def _look_after(self, work: Callable[[], None]) -> None:
        # A loop whose call raises is never called again, and without it a disk that is full would stay so.
        try:
            work()
        except Exception:
            self.log.failure("housekeeping failed; it is tried again when it is due again")


def _or_none(milliseconds: int) -> int | None:
    return None if milliseconds == -1 else milliseconds


def _flushed(store: LogStore) -> Deferred[None]:
    done: Deferred[None] = Deferred()
    store.flush_all(lambda: done.callback(None))
    return done


def _as_deferred(result: Any) -> Deferred[Any]:
    if isinstance(result, Deferred):
        return result
    done: Deferred[Any] = Deferred()
    done.callback(result)
    return done
