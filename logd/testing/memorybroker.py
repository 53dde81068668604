"""A whole broker in memory: real logs on a disk in memory, real connections on a network in memory, time on a clock."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall, deferLater

from logd.broker.broker import Broker
from logd.broker.joining import join_others
from logd.broker.membership import Membership
from logd.broker.pressure import ProducerGate
from logd.broker.storedtopics import StoredTopics
from logd.config import BrokerSettings
from logd.coord.errors import ClientClosing, OperationTimeout
from logd.coord.inprocess.client import InProcessCoordination
from logd.log.store import LogStore
from logd.log.topicsfile import TopicsFile
from logd.net.limits import ConnectionLimits
from logd.net.server import ConnectionFactory
from logd.net.transfer import SendfileSender
from logd.testing.clocks import ProcessClock
from logd.testing.clockthreads import ClockThreads
from logd.testing.memoryfiles import MemoryFiles
from logd.testing.memorytree import MemoryTree
from logd.testing.network import MemoryNetwork, MemoryPort

#: Where a broker's data directory is on its disk in memory.
DATA = "/data"
#: Seconds between two looks whether the last answers have left, while stopping.
_STOP_POLL_SECONDS = 0.02
#: Seconds for which a broker goes on looking for its first session.
_FOR_EVER = 24 * 60 * 60.0


@define(eq=False)
class MemoryBroker:
    """A broker on the host ``host`` of a network in memory; it can be stopped, killed and started again.

    ``files`` is its disk, which outlives it. ``disk_delay()`` gives the seconds that a wait for the disk takes.
    """

    network: MemoryNetwork
    tree: MemoryTree
    settings: BrokerSettings
    host: str
    port: int = 6667
    files: MemoryFiles = field(factory=MemoryFiles)
    disk_delay: Callable[[], float] = lambda: 0.001
    random: Random = field(factory=lambda: Random(0))
    #: The process it runs in, another after each start; None while it does not run.
    clock: ProcessClock | None = field(default=None, init=False)
    broker: Broker | None = field(default=None, init=False)
    store: LogStore | None = field(default=None, init=False)
    membership: Membership | None = field(default=None, init=False)
    coordination: InProcessCoordination | None = field(default=None, init=False)
    _waiting: Any = field(default=None, init=False)
    _loops: list[LoopingCall] = field(factory=list, init=False)
    _listener: MemoryPort | None = field(default=None, init=False)
    _factory: ConnectionFactory | None = field(default=None, init=False)

    @property
    def running(self) -> bool:
        """Whether it was started, and neither stopped nor killed since."""
        return self.clock is not None

    @property
    def address(self) -> tuple[str, int]:
        """Where clients connect."""
        return self.host, self.port

    def start(self) -> None:
        """Open the data directory, recover, listen. Raises DataDirectoryError and the like, as a real one."""
        settings = self.settings
        self.clock = clock = ProcessClock(self.network.clock)
        flushes, reads = ClockThreads(clock, self.disk_delay), ClockThreads(clock, self.disk_delay)
        gate = ProducerGate()
        self.store = store = LogStore(
            DATA,
            self.files,
            clock,
            flushes,
            settings.log,
            broker_id=settings.id,
            flush_workers=settings.flush_threads,
            unflushed_limit=settings.unflushed_bytes,
            on_pressure=gate.set,
        )
        stored = StoredTopics(store, TopicsFile(self.files, DATA), reads, settings)
        store.open(stored.settings_for)
        stored.reconcile()
        self.coordination = client = self.tree.client(
            clock, settings.zookeeper_session_ms / 1000, settings.zookeeper_timeout_ms / 1000
        )
        self.broker, self.membership = broker, membership = join_others(
            client, stored, store, settings, reads, clock, gate, self.random.randrange
        )
        broker.advertised = self.address
        limits = ConnectionLimits(settings.frame_bytes, settings.connection_requests, settings.frames_bytes)
        self._factory = ConnectionFactory(broker, SendfileSender(reads), clock, limits)
        self._listener = self.network.listen(self.host, self.port, self._factory, clock)
        membership.start()
        client.connect(_FOR_EVER).addErrback(lambda failure: failure.trap(ClientClosing, OperationTimeout))
        self._waiting = clock.callLater(settings.zookeeper_timeout_ms / 1000, broker.begin)
        for work, milliseconds in (
            (store.expire, settings.retention_check_ms),
            (store.write_checkpoints, settings.checkpoint_ms),
        ):
            loop = LoopingCall(work)
            loop.clock = clock
            loop.start(milliseconds / 1000, now=False)
            self._loops.append(loop)

    def stop(self) -> Deferred[None]:
        """Stop as a real one does: finish or refuse what is in flight, flush, checkpoint, close. Fires when done."""
        return Deferred.fromCoroutine(self._stop())

    def kill(self, power_lost: bool = False) -> None:
        """End at once; with ``power_lost`` also lose what was not synced, and tell peers nothing."""
        if self.clock is None:
            return
        clock, self.clock = self.clock, None
        clock.kill()
        self.network.end_host(self.host, quietly=power_lost)
        self.files.restart(power_lost)
        self._over(clock)

    async def _stop(self) -> None:
        broker, store, clock = self.broker, self.store, self.clock
        membership, client = self.membership, self.coordination
        if broker is None or store is None or clock is None or membership is None or client is None:
            return
        if broker.stopping:
            return
        if self._listener is not None:
            self._listener.stopListening()
        loops, self._loops = self._loops, []
        for loop in loops:
            loop.stop()
        broker.stop()
        broker.begin()
        if self._waiting is not None and self._waiting.active():
            self._waiting.cancel()
        await membership.stop()
        await _flushed(store)
        deadline = clock.seconds() + self.settings.stop_ms / 1000
        while clock.seconds() < deadline and not all(session.connection.idle for session in broker.sessions):
            await _sleep(clock)
        for session in tuple(broker.sessions):
            session.connection.close()
        while clock.seconds() < deadline and broker.sessions:
            await _sleep(clock)
        for session in tuple(broker.sessions):
            session.connection.abort()
        await _flushed(store)
        await client.close()
        store.close()
        clock.kill()
        if self.clock is clock:
            self.clock = None
            self.network.end_host(self.host)
            self._over(clock)

    def _over(self, clock: ProcessClock) -> None:
        self.network.graveyard.append((self.broker, self.membership, self.coordination, self._factory, clock))
        if self.coordination is not None:
            self.tree.forget(self.coordination)
        self.broker = self.store = self.membership = self.coordination = self._listener = self._factory = None
        self._loops = []


def _flushed(store: LogStore) -> Deferred[None]:
    done: Deferred[None] = Deferred()
    store.flush_all(lambda: done.callback(None))
    return done


def _sleep(clock: Any) -> Deferred[None]:
    return deferLater(clock, _STOP_POLL_SECONDS)
