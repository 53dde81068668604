"""A whole broker in memory: real logs on a disk in memory, real connections on a network in memory, time on a clock."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed

from logd.broker.assembly import BrokerAssembly
from logd.broker.broker import Broker
from logd.broker.registration import BrokerRegistration
from logd.broker.resources import BrokerResources, Listener
from logd.broker.shutdown import StopReport
from logd.config import BrokerSettings
from logd.coord.errors import ClientClosing, OperationTimeout
from logd.log.store.log_store import LogStore
from logd.net.server import ConnectionFactory
from logd.testing.inprocess.client import InProcessCoordination
from logd.testing.memory.clock_threads import ClockThreads
from logd.testing.memory.clocks import ProcessClock
from logd.testing.memory.files import MemoryFiles
from logd.testing.memory.network import MemoryNetwork
from logd.testing.memory.tree import MemoryTree

#: The data directory of a broker on its disk in memory.
DATA = "/data"
#: The port of the first listener for clients of today's Kafka, where there is one; further ones have the next.
KAFKA_PORT = 9092
#: Seconds for which a broker tries to open its first session.
_FOR_EVER = 24 * 60 * 60.0


@define(eq=False)
class MemoryBroker:
    """A broker on the host ``host`` of a network in memory; it can be stopped, killed and started again.

    ``files`` is its disk, which outlives it. ``disk_delay()`` returns the seconds that a wait for the disk takes.
    """

    network: MemoryNetwork
    tree: MemoryTree
    settings: BrokerSettings
    host: str
    port: int = 6667
    files: MemoryFiles = field(factory=MemoryFiles)
    disk_delay: Callable[[], float] = lambda: 0.001
    random: Random = field(factory=lambda: Random(0))
    #: The number of files kept open for reading.
    open_readers: int = 512
    #: Seconds by which the time of day on its machine is ahead of the network's clock.
    wall_offset: float = 0.0
    #: The process that it runs in, a new one after each start; None while it does not run.
    clock: ProcessClock | None = field(default=None, init=False)
    broker: Broker | None = field(default=None, init=False)
    store: LogStore | None = field(default=None, init=False)
    membership: BrokerRegistration | None = field(default=None, init=False)
    coordination: InProcessCoordination | None = field(default=None, init=False)
    _assembly: BrokerAssembly | None = field(default=None, init=False)

    def wall(self) -> float:
        """The time of day on its machine, in seconds since the epoch."""
        now: float = self.network.clock.seconds()
        return now + self.wall_offset

    def set_clock(self, ahead: float) -> None:
        """Set the time of day on its machine, in seconds ahead of the network's clock; durations are unaffected."""
        self.wall_offset = ahead

    @property
    def running(self) -> bool:
        """True if it was started, and neither stopped nor killed since."""
        return self.clock is not None

    @property
    def address(self) -> tuple[str, int]:
        """The address for clients."""
        return self.host, self.port

    def start(self) -> None:
        """Open the data directory, recover, listen. Raises DataDirectoryError and the like, as a real broker does."""
        self.clock = clock = ProcessClock(self.network.clock)
        access = _MemoryTreeAccess(self, clock)
        resources = BrokerResources(
            clock,
            self.wall,
            self.files,
            DATA,
            ClockThreads(clock, self.disk_delay),
            ClockThreads(clock, self.disk_delay),
            access,
            lambda factory, setting, place: self._listen(factory, setting, place, clock),
            lambda: succeed(None),
            lambda address, tls: self._connect(address, clock),
            open_readers=self.open_readers,
            pick=self.random.randrange,
        )
        self._assembly = assembly = BrokerAssembly(self.settings, resources)
        assembly.open()
        self.broker, self.store, self.membership = assembly.broker, assembly.store, assembly.membership
        assembly.join()

    def stop(self) -> Deferred[StopReport]:
        """Stop like a real broker: finish or refuse requests in flight, flush, checkpoint, close. Fires when done."""
        return Deferred.fromCoroutine(self._stop())

    def kill(self, power_lost: bool = False) -> None:
        """End at once, without notifying peers; with ``power_lost`` also lose unsynced data."""
        if self.clock is None:
            return
        clock, self.clock = self.clock, None
        clock.kill()
        self.network.end_host(self.host, quietly=power_lost)
        self.files.restart(power_lost)
        self._over(clock)

    def _listen(self, factory: ConnectionFactory, setting: str, place: int, clock: ProcessClock) -> Listener:
        port = self.port if setting == "listen" else KAFKA_PORT + place
        return Listener((self.host, port), self.network.listen(self.host, port, factory, clock).stopListening)

    def _connect(self, address: tuple[str, int], clock: ProcessClock) -> Deferred[Any]:
        return self.network.connector(self.host, clock)(address)

    async def _stop(self) -> StopReport:
        assembly, clock = self._assembly, self.clock
        if assembly is None or clock is None:
            return StopReport({}, ())
        report = await assembly.stop()
        clock.kill()
        if self.clock is clock:
            self.clock = None
            self.network.end_host(self.host)
            if not report.clean:
                self.files.restart(power_lost=False)
            self._over(clock)
        return report

    def _over(self, clock: ProcessClock) -> None:
        self.network.graveyard.append((self._assembly, self.coordination, clock))
        if self.coordination is not None:
            self.tree.forget(self.coordination)
        self.broker = self.store = self.membership = self.coordination = self._assembly = None


@define(eq=False)
class _MemoryTreeAccess:
    """The tree of a broker in memory; see TreeAccess."""

    _broker: MemoryBroker
    _clock: ProcessClock
    problem: str | None = None

    def open(self, data: str) -> InProcessCoordination:
        settings = self._broker.settings
        client = self._broker.tree.client(
            self._clock, settings.zookeeper_session_ms / 1000, settings.zookeeper_timeout_ms / 1000
        )
        self._broker.coordination = client
        return client

    def connect(self) -> None:
        if self._broker.coordination is not None:
            connecting = self._broker.coordination.connect(_FOR_EVER)
            connecting.addErrback(lambda failure: failure.trap(ClientClosing, OperationTimeout))

    async def leave(self) -> None:
        if self._broker.coordination is not None:
            await self._broker.coordination.close()

    async def close(self) -> None:
        pass
