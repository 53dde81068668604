"""A cluster in memory for tests of applications: no sockets, no files, no threads, and time that the test advances."""

from __future__ import annotations

from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.producer.producer import Producer
from logd.config import BrokerSettings
from logd.deferreds.sleeping import sleep
from logd.testing.inprocess.client import InProcessCoordination
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.clocks import ProcessClock
from logd.testing.memory.files import MemoryFiles
from logd.testing.memory.network import MemoryNetwork
from logd.testing.memory.tree import MemoryTree

T = TypeVar("T")

#: The time of a cluster's clock at the start, in seconds since the epoch: 2020-01-01.
BEGIN = 1_577_836_800.0
#: Seconds between two checks whether all brokers know one another.
_POLL_SECONDS = 0.01


class NotYet(AssertionError):
    """An awaited event did not happen within the time given."""


class MemoryCluster:
    """Real brokers and clients on in-memory transports, disks and a ``task.Clock``: the same every time.

    ::

        cluster = MemoryCluster()
        cluster.wait(cluster.start())
        producer = cluster.producer()
        cluster.wait(producer.send("events", b"hello"))

    ``settings`` are those of BrokerSettings, such as ``topics_partitions=4``. ``clock`` is the reactor for the code
    under test, and ``connect`` the connector for its own clients.
    """

    def __init__(self, *, brokers: int = 1, clock: Clock | None = None, seed: int = 0, **settings: Any) -> None:
        """``seed`` decides every random draw. Raises ConfigurationError for a setting that is not allowed."""
        if clock is None:
            clock = Clock()
            clock.advance(BEGIN)
        self.clock = clock
        self.random = Random(seed)
        self.network = MemoryNetwork(clock)
        disk = MemoryFiles(Random(self.random.random()), clock.seconds)
        self.tree = MemoryTree(clock, files=disk, random=Random(self.random.random()))
        self.brokers = [self._broker(number, settings) for number in range(brokers)]
        self.connect = self.network.connector()
        self._clients: list[Producer | Consumer | Admin] = []
        self._coordination: InProcessCoordination | None = None

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The brokers' addresses: the first argument of every client."""
        return [broker.address for broker in self.brokers]

    def start(self) -> Deferred[None]:
        """Start the tree and the brokers; fires when the brokers serve requests and know one another."""
        self.tree.start()
        for broker in self.brokers:
            broker.start()
        self._coordination = self.tree.client(ProcessClock(self.clock))
        return Deferred.fromCoroutine(self._started(self._coordination))

    def stop(self) -> Deferred[None]:
        """Close the clients made here, stop the brokers; fires when no call is scheduled any more."""
        return Deferred.fromCoroutine(self._stop())

    def producer(self, **settings: Any) -> Producer:
        """Return a Producer of this cluster, with its own settings; closed by ``stop``."""
        client: Producer = self._client(Producer, settings)
        return client

    def consumer(self, **settings: Any) -> Consumer:
        """Return a Consumer of this cluster, with its own settings, such as ``group="readers"``; closed by ``stop``."""
        if "group" in settings:
            settings = {"coordination": self._coordination, "consumer_name": "consumer", **settings}
        client: Consumer = self._client(Consumer, settings)
        return client

    def admin(self, **settings: Any) -> Admin:
        """Return an Admin of this cluster; closed by ``stop``."""
        client: Admin = self._client(Admin, settings)
        return client

    def wait(self, what: Deferred[T] | Coroutine[Any, Any, T], seconds: float = 60.0) -> T:
        """Advance the clock until ``what`` has a result; return it, or raise its failure.

        Raises NotYet when that takes more than ``seconds`` of the clock, or cannot happen because no call is scheduled.
        """
        waiting: Any = what if isinstance(what, Deferred) else Deferred.fromCoroutine(what)
        outcome: list[Any] = []
        waiting.addBoth(outcome.append)
        end = self.clock.seconds() + seconds
        while not outcome and self._turn(end):
            pass
        if not outcome:
            raise NotYet(f"it did not happen within {seconds:g} seconds of the cluster's clock")
        (result,) = outcome
        if isinstance(result, Failure):
            result.raiseException()
        return result  # type: ignore[no-any-return]  # T, by the Deferred

    def advance(self, seconds: float) -> None:
        """Let time pass, and make every call that is due meanwhile."""
        end = self.clock.seconds() + seconds
        while self._turn(end):
            pass
        self.clock.advance(max(0.0, end - self.clock.seconds()))

    def _turn(self, end: float) -> bool:
        """Advance the clock to the next call that is due by ``end``; return False when there is none."""
        due = min((call.getTime() for call in self.clock.getDelayedCalls()), default=end + 1.0)
        if due > end:
            return False
        self.clock.advance(max(0.0, due - self.clock.seconds()))
        return True

    def _broker(self, number: int, settings: dict[str, Any]) -> MemoryBroker:
        files = MemoryFiles(Random(self.random.random()), self.clock.seconds, syncs_whole=True)
        return MemoryBroker(
            self.network,
            self.tree,
            BrokerSettings(data="/data", id=number, **settings),
            f"broker-{number}",
            files=files,
            random=Random(self.random.random()),
        )

    def _client(self, kind: type[Any], settings: dict[str, Any]) -> Any:
        given = {"reactor": self.clock, "connect": self.connect, "random": self.random.random, **settings}
        client = kind(self.addresses, **given)
        self._clients.append(client)
        return client

    async def _started(self, coordination: InProcessCoordination) -> None:
        await coordination.connect()
        everybody = [broker.settings.id for broker in self.brokers]
        while not all(broker.broker is not None and broker.broker.ready for broker in self.brokers) or any(
            broker.membership is None or sorted(broker.membership.live()) != everybody for broker in self.brokers
        ):
            await sleep(self.clock, _POLL_SECONDS)

    async def _stop(self) -> None:
        clients, self._clients = self._clients, []
        await gatherResults([client.close() for client in clients])
        await gatherResults([broker.stop() for broker in self.brokers])
        coordination, self._coordination = self._coordination, None
        if coordination is not None:
            await coordination.close()
            self.tree.forget(coordination)
        if self.tree.server is not None:
            await self.tree.stop()
